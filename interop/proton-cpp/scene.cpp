#include <proton/codec/encoder.hpp>
#include <proton/null.hpp>

#include "scene.hpp"

namespace {
// One request on the management pair of a connection, which is opened with the first.
struct Management {
    std::string requests, answers;
};

Management pair(Peer& peer) {
    std::map<proton::symbol, proton::value> paired{{"paired", true}};
    auto settled = proton::delivery_mode::AT_MOST_ONCE;
    auto me = proton::source_options().address("me");
    auto back = proton::target_options().address("me");
    auto options = proton::receiver_options().delivery_mode(settled).properties(paired).target(back);
    Management management;
    management.requests = peer.sender("management",
        proton::sender_options().delivery_mode(settled).properties(paired).source(me), "/management");
    management.answers = peer.receiver("management", options, "/management");
    return management;
}
}  // namespace

Scene::Scene(const Setting& setting, const std::string& name)
    : setting(setting), prefix(setting.at("prefix") + name) {
    again();
}

Scene::~Scene() {
    for (const auto& queue : queues_) {
        try {
            ask("DELETE", "/queues/" + queue);
        } catch (const std::exception&) {
            // The scenario said already what failed.
        }
    }
}

void Scene::again() {
    managed_.clear();
    peer.reset();
    peer = connect(plain());
}

proton::connection_options Scene::plain(const std::string& password) const {
    proton::connection_options options;
    options.user(setting.at("user")).password(password.empty() ? setting.at("password") : password);
    return options.sasl_allowed_mechs("PLAIN").sasl_allow_insecure_mechs(true);
}

std::unique_ptr<Peer> Scene::connect(proton::connection_options options, const std::string& port) {
    bool tls = port == "amqps";
    std::string host = tls ? "localhost" : setting.at("host");
    return std::make_unique<Peer>((tls ? "amqps://" : "amqp://") + host + ":" + setting.at(port), options);
}

proton::value Scene::ask(const std::string& method, const std::string& path, const proton::value& body,
                         std::vector<int> codes, Peer* other) {
    Peer& asked = other ? *other : *peer;
    if (!managed_.count(&asked)) {
        Management opened = pair(asked);
        managed_[&asked] = {opened.requests, opened.answers};
    }
    auto [requests, answers] = managed_[&asked];
    proton::message request(body);      // an empty body is no section at all, which reads as null
    request.id("request");
    request.subject(method);
    request.to(path);
    request.reply_to("$me");
    asked.credit(answers, 1);
    asked.send_settled(requests, request);
    proton::message answer = asked.receive(answers).message;
    int code = std::stoi(answer.subject());
    bool expected = codes.empty();
    for (int wanted : codes) expected |= code == wanted;
    check(expected, method + " " + path + ": " + answer.subject() + " " + show(answer.body()));
    return answer.body();
}

std::string Scene::queue(const std::string& suffix, const Arguments& arguments) {
    std::string name = prefix + suffix;
    ask("DELETE", "/queues/" + name);
    ask("PUT", "/queues/" + name, Arguments{{"arguments", arguments}}, {201});
    queues_.push_back(name);
    return name;
}

uint64_t Scene::count(const std::string& queue) {
    auto info = proton::get<Arguments>(ask("GET", "/queues/" + queue, {}, {200}));
    return proton::coerce<uint64_t>(info.at("message_count"));
}

void Scene::publish(const std::string& queue, const std::vector<proton::message>& messages) {
    auto sender = peer->sender(fresh("publisher"), {}, "/queues/" + queue);
    for (const auto& message : messages) accepted(peer->send(sender, message));
    peer->close(sender);
}

std::string Scene::receiver(const std::string& queue, uint32_t credit, proton::receiver_options options) {
    auto receiver = peer->receiver(fresh("consumer"), options, "/queues/" + queue);
    if (credit > 0) peer->credit(receiver, credit);
    return receiver;
}

std::string Scene::fresh(const std::string& what) {
    return what + "-" + std::to_string(++names_);
}

std::string show(bool value) {
    return value ? "true" : "false";
}

std::string show(const proton::value& value) {
    return value.empty() ? "nothing" : proton::to_string(value);
}

proton::value null() {
    proton::value value;
    proton::codec::encoder(value) << proton::null();
    return value;
}

void check(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
}

void accepted(Outcome outcome) {
    same(proton::to_string(outcome), std::string("accepted"), "outcome");
}

std::string refusal(const std::function<void()>& attempt) {
    try {
        attempt();
    } catch (const Refused& refused) {
        return refused.condition;
    }
    return "not refused";
}

void until(const std::string& what, const std::function<bool()>& holds) {
    auto deadline = std::chrono::steady_clock::now() + limit;
    while (!holds()) {
        check(std::chrono::steady_clock::now() < deadline, what);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

void accept(Peer& peer, const Received& received) {
    peer.settle(received, [](proton::delivery& delivery) { delivery.accept(); });
}

proton::message text(const std::string& body) {
    proton::message message(body);
    message.id(body);
    return message;
}

Arguments only(const std::string& key, const std::string& value) {
    Arguments arguments;
    arguments[key] = value;
    return arguments;
}

Arguments dead_lettered_to(const std::string& queue) {
    return {{"x-dead-letter-exchange", ""}, {"x-dead-letter-routing-key", queue}};
}
