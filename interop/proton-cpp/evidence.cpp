// What a consumer says when it rejects stays with the dead letter. Proton C++ 0.37 sends no error: it is the
// broker that says who rejected, and nothing that says why.
#include <iostream>

#include "scene.hpp"

namespace {
using Keyed = std::map<proton::symbol, proton::value>;

// Who caused a death; the port is the one thing that nobody knows before.
void check_by(Keyed by, const std::string& container, const std::string& link, const std::string& user) {
    auto address = proton::get<std::string>(by["address"]);
    same(address.substr(0, address.rfind(':')), std::string("127.0.0.1"), "host of the consumer");
    same(proton::get<proton::symbol>(by["how"]), proton::symbol("rejected"), "how");
    for (const auto& one : std::map<std::string, std::string>{
             {"container", container}, {"link", link}, {"user", user}}) {
        same(proton::get<std::string>(by[one.first]), one.second, one.first);
    }
    same(by.size(), size_t(5), "fields of the culprit");
}

std::string full(Peer& peer, const std::string& name, const std::string& queue) {
    Keyed properties{{"x-opt-death-evidence", proton::symbol("full")}};
    auto receiver = peer.receiver(name, proton::receiver_options().properties(properties).auto_accept(false),
                                  "/queues/" + queue);
    peer.credit(receiver, 1);
    return receiver;
}

void reject(Peer& peer, const Received& received) {
    peer.settle(received, [](proton::delivery& delivery) { delivery.reject(); });
}

std::vector<Keyed> entries(const proton::message& letter) {
    std::vector<proton::value> maps;
    proton::get(letter.message_annotations().get(proton::symbol("x-opt-deaths")), maps);
    std::vector<Keyed> found;
    for (const auto& map : maps) found.push_back(proton::get<Keyed>(map));
    return found;
}

void nothing_invented(const proton::message& letter) {
    for (auto name : {"x-opt-last-death-condition", "x-opt-last-death-description"}) {
        check(!letter.message_annotations().exists(proton::symbol(name)), std::string("an invented ") + name);
    }
}

void evidence(Scene& scene) {
    auto last = scene.queue("-last");
    auto dead = scene.queue("-dead", dead_lettered_to(last));
    auto queue = scene.queue("", dead_lettered_to(dead));
    auto safe = scene.queue("-safe");
    auto user = scene.setting.at("user");
    proton::message order = text("order");
    order.durable(true);
    scene.publish(queue, {order});
    auto consumer = scene.connect(scene.plain().container_id("first-container"));
    reject(*consumer, consumer->receive(full(*consumer, "first-consumer", queue)));
    until("it is not dead-lettered", [&] { return scene.count(dead) == 1; });
    // What is confirmed now makes all before it safe, the rejection too.
    scene.publish(safe, {order});
    std::cout << "restart" << std::endl;
    std::string answer;
    std::getline(std::cin, answer);
    same(answer, std::string("restarted"), "answer");
    scene.again();

    auto reader = scene.connect(scene.plain().container_id("second-container"));
    Received received = reader->receive(full(*reader, "second-consumer", dead));
    nothing_invented(received.message);
    auto by = proton::get<Keyed>(received.message.message_annotations().get(proton::symbol("x-opt-last-death-by")));
    check_by(by, "first-container", "first-consumer", user);
    reject(*reader, received);
    auto letter = reader->receive(full(*reader, "third-consumer", last)).message;
    nothing_invented(letter);
    auto both = entries(letter);
    same(both.size(), size_t(2), "entries");
    check_by(proton::get<Keyed>(both[0]["by"]), "second-container", "second-consumer", user);
    check_by(proton::get<Keyed>(both[1]["by"]), "first-container", "first-consumer", user);
}
}  // namespace

Scenarios evidence_scenarios() {
    return {{"evidence", evidence}};
}
