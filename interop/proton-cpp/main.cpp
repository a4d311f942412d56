// Qpid Proton C++ through the scenarios of ../SCENARIOS.md.
//
//     proton-cpp SETTING.json [SCENARIO ...]
#include <fstream>
#include <iostream>
#include <regex>

#include "scene.hpp"

// The setting is one flat object of strings, numbers and booleans.
static Setting read(const char* path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    std::string json = text.str();
    std::regex field("\"(\\w+)\":\\s*(?:\"([^\"]*)\"|([\\w.]+))");
    Setting setting;
    for (std::sregex_iterator at(json.begin(), json.end(), field), end; at != end; ++at) {
        setting[(*at)[1]] = (*at)[2].matched ? (*at)[2].str() : (*at)[3].str();
    }
    return setting;
}

static std::string line(std::string text) {
    for (char& c : text) c = c == '\n' ? ' ' : c;
    return text;
}

int main(int count, char** arguments) {
    Setting setting = read(arguments[1]);
    Scenarios all;
    for (auto list : {connection_scenarios(), message_scenarios(), link_scenarios(), death_scenarios(),
                      evidence_scenarios()}) {
        all.insert(all.end(), list.begin(), list.end());
    }
    std::vector<std::string> wanted(arguments + 2, arguments + count);
    if (wanted.empty()) for (const auto& one : all) wanted.push_back(one.first);
    int status = 0;
    for (const auto& name : wanted) {
        try {
            Scenario scenario = nullptr;
            for (const auto& one : all) if (one.first == name) scenario = one.second;
            if (!scenario) throw Skip("not written for this client");
            Scene scene(setting, name);
            scenario(scene);
            std::cout << "ok " << name << std::endl;
        } catch (const Skip& skip) {
            std::cout << "skip " << name << " " << line(skip.what()) << std::endl;
        } catch (const std::exception& error) {
            std::cout << "fail " << name << " " << line(error.what()) << std::endl;
            status = 1;
        }
    }
    return status;
}
