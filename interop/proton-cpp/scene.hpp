// What all scenarios share: the setting, one connection with its management pair, comparing.
#pragma once

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <proton/codec/vector.hpp>
#include <proton/codec/map.hpp>
#include <proton/map.hpp>
#include <proton/message_id.hpp>
#include <proton/symbol.hpp>
#include <proton/types.hpp>
#include <proton/value.hpp>

#include "peer.hpp"

using Arguments = std::map<std::string, proton::value>;
using Setting = std::map<std::string, std::string>;

// This client cannot do that; the text says what is missing.
struct Skip : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Scene {
  public:
    Scene(const Setting& setting, const std::string& name);
    ~Scene();

    std::unique_ptr<Peer> connect(proton::connection_options options = {}, const std::string& port = "amqp");
    proton::connection_options plain(const std::string& password = "") const;
    void again();
    // Asks the management node of this connection, or of another one.
    proton::value ask(const std::string& method, const std::string& path, const proton::value& body = {},
                      std::vector<int> codes = {}, Peer* peer = nullptr);
    std::string queue(const std::string& suffix = "", const Arguments& arguments = {});
    uint64_t count(const std::string& queue);
    void publish(const std::string& queue, const std::vector<proton::message>& messages);
    // A receiver with credit, on the connection of the scene.
    std::string receiver(const std::string& queue, uint32_t credit = 10, proton::receiver_options options = {});
    std::string fresh(const std::string& what);

    Setting setting;
    std::string prefix;
    std::unique_ptr<Peer> peer;

  private:
    std::vector<std::string> queues_;
    std::map<Peer*, std::pair<std::string, std::string>> managed_;
    int names_ = 0;
};

using Scenario = void (*)(Scene&);
using Scenarios = std::vector<std::pair<std::string, Scenario>>;
Scenarios connection_scenarios();
Scenarios message_scenarios();
Scenarios link_scenarios();
Scenarios death_scenarios();
Scenarios evidence_scenarios();

template <class T> std::string show(const T& value) {
    std::ostringstream out;
    out << value;
    return out.str();
}
std::string show(bool value);
std::string show(const proton::value& value);

// An encoded null: an empty value is nothing at all.
proton::value null();

void check(bool holds, const std::string& what);

template <class T> void same(const T& observed, const T& expected, const std::string& what) {
    check(observed == expected, what + ": " + show(observed) + " instead of " + show(expected));
}

void accepted(Outcome outcome);
// The condition with which an attempt fails.
std::string refusal(const std::function<void()>& attempt);
void until(const std::string& what, const std::function<bool()>& holds);
void accept(Peer& peer, const Received& received);
proton::message text(const std::string& body);
// A map of one text: in braces it would be taken for a range of characters.
Arguments only(const std::string& key, const std::string& value);
Arguments dead_lettered_to(const std::string& queue);
