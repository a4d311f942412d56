// Dead letters with their history, and what survives a restart.
#include <iostream>

#include <proton/duration.hpp>
#include <proton/timestamp.hpp>

#include "scene.hpp"

static proton::message letter() {
    proton::message message(only("text", "dear"));
    message.id("letter");
    message.subject("greeting");
    message.properties().put("n", int64_t(7));
    return message;
}

static void unchanged(const proton::message& message) {
    same(show(message.id()), std::string("letter"), "message-id");
    same(message.subject(), std::string("greeting"), "subject");
    check(message.properties().get("n") == proton::scalar(int64_t(7)), "application property");
    check(message.body() == letter().body(), "body");
}

struct Death {
    std::string queue, reason;
    uint64_t count = 1;
    uint32_t ttl_ms = 0;
};

using Entry = std::map<proton::symbol, proton::value>;

// The array of maps, element by element.
static std::vector<Entry> entries(const proton::value& deaths) {
    same(deaths.type(), proton::ARRAY, "x-opt-deaths");
    std::vector<proton::value> maps;
    proton::get(deaths, maps);
    std::vector<Entry> found;
    for (const auto& map : maps) {
        same(map.type(), proton::MAP, "element of x-opt-deaths");
        found.push_back(proton::get<Entry>(map));
    }
    return found;
}

template <class T> static void field(Entry& entry, const std::string& name, const T& expected) {
    auto found = entry.find(name);
    check(found != entry.end(), "no " + name);
    same(found->second.type(), proton::value(expected).type(), "type of " + name);
    check(found->second == proton::value(expected), name + ": " + show(found->second));
    entry.erase(found);
}

static void times(Entry& entry) {
    auto first = proton::get<proton::timestamp>(entry.at("first-time"));
    auto last = proton::get<proton::timestamp>(entry.at("last-time"));
    check(first <= last, "times in order");
    check(proton::timestamp::now().milliseconds() - last.milliseconds() < 60000, "last-time is now");
    entry.erase("first-time");
    entry.erase("last-time");
}

// The whole history: newest first; `first` is the first death.
static void history(const proton::message& message, const std::vector<Death>& expected, const Death& first) {
    auto annotation = [&](const std::string& name) { return message.message_annotations().get(proton::symbol(name)); };
    auto named = [&](const std::string& when, const Death& death) {
        for (auto& one : std::map<std::string, std::string>{
                 {"queue", death.queue}, {"reason", death.reason}, {"exchange", ""}}) {
            same(proton::get<std::string>(annotation("x-" + when + "-death-" + one.first)), one.second, when + one.first);
        }
    };
    named("first", first);
    named("last", expected[0]);
    auto found = entries(annotation("x-opt-deaths"));
    same(found.size(), expected.size(), "entries");
    for (size_t at = 0; at < expected.size(); ++at) {
        const Death& death = expected[at];
        field(found[at], "queue", death.queue);
        field(found[at], "reason", proton::symbol(death.reason));
        field(found[at], "count", death.count);
        field(found[at], "exchange", std::string());
        field(found[at], "routing-keys", std::vector<std::string>{death.queue});
        if (death.ttl_ms) field(found[at], "ttl", death.ttl_ms);
        times(found[at]);
        same(found[at].size(), size_t(0), "further fields");
    }
}

static std::string pair(Scene& scene, const std::string& dead, Arguments more = {}) {
    Arguments arguments = dead_lettered_to(dead);
    arguments.insert(more.begin(), more.end());
    return scene.queue("", arguments);
}

static Received next(Scene& scene, const std::string& queue) {
    auto receiver = scene.receiver(queue);
    return scene.peer->receive(receiver);
}

static void reject(Scene& scene, const Received& received) {
    scene.peer->settle(received, [](proton::delivery& delivery) { delivery.reject(); });
}

static void rejected(Scene& scene) {
    auto last = scene.queue("-last");
    auto dead = scene.queue("-dead", dead_lettered_to(last));
    auto queue = pair(scene, dead);
    proton::message sent = letter();
    sent.ttl(proton::duration(60000));
    scene.publish(queue, {sent});
    reject(scene, next(scene, queue));
    Received received = next(scene, dead);
    unchanged(received.message);
    same(received.message.ttl().milliseconds(), proton::duration(0).milliseconds(), "ttl of the dead letter");
    Death once{queue, "rejected", 1, 60000};
    history(received.message, {once}, once);
    reject(scene, received);
    received = next(scene, last);
    unchanged(received.message);
    history(received.message, {{dead, "rejected"}, once}, once);
}

static void expired(Scene& scene) {
    auto dead = scene.queue("-dead");
    auto queue = pair(scene, dead, {{"x-message-ttl", uint64_t(100)}});
    auto receiver = scene.receiver(dead);
    scene.publish(queue, {letter()});
    Received received = scene.peer->receive(receiver, std::chrono::milliseconds(5000));
    unchanged(received.message);
    history(received.message, {{queue, "expired"}}, {queue, "expired"});
}

static void maxlen(Scene& scene) {
    auto dead = scene.queue("-dead");
    auto queue = pair(scene, dead, {{"x-max-length", uint64_t(1)}});
    scene.publish(queue, {letter(), text("second")});
    Received received = next(scene, dead);
    unchanged(received.message);
    history(received.message, {{queue, "maxlen"}}, {queue, "maxlen"});
    same(scene.count(queue), uint64_t(1), "left in the queue");
}

// Proton C++ 0.37 cannot say that a delivery failed: a lost connection does.
static void delivery_limit(Scene& scene) {
    auto dead = scene.queue("-dead");
    auto queue = pair(scene, dead, {{"x-queue-type", "quorum"}, {"x-delivery-limit", uint64_t(1)}});
    scene.publish(queue, {letter()});
    for (uint32_t count : {0, 1}) {
        auto other = scene.connect(scene.plain());
        auto receiver = other->receiver("fails", {}, "/queues/" + queue);
        other->credit(receiver, 1);
        same(other->receive(receiver).message.delivery_count(), count, "delivery-count");
    }
    Received received = next(scene, dead);
    unchanged(received.message);
    history(received.message, {{queue, "delivery_limit"}}, {queue, "delivery_limit"});
}

static void cycle(Scene& scene) {
    auto alone = scene.queue("-alone", {{"x-message-ttl", uint64_t(50)}, {"x-dead-letter-exchange", ""}});
    scene.publish(alone, {letter()});
    until("it still turns", [&] { return scene.count(alone) == 0; });
    auto queue = scene.queue("-rejected", only("x-dead-letter-exchange", ""));
    scene.publish(queue, {letter()});
    auto receiver = scene.receiver(queue);
    for (int n = 0; n < 2; ++n) reject(scene, scene.peer->receive(receiver));
    history(scene.peer->receive(receiver).message, {{queue, "rejected", 2}}, {queue, "rejected"});
}

static void restart(Scene& scene) {
    Arguments type = only("x-queue-type", "quorum");
    auto classic = scene.queue("-classic"), quorum = scene.queue("-quorum", type), dead = scene.queue("-dead");
    auto queue = pair(scene, dead, type);
    proton::message durable = letter(), kept = text("kept");
    durable.durable(true);
    kept.durable(true);
    scene.publish(queue, {durable});
    reject(scene, next(scene, queue));
    until("it is not dead-lettered", [&] { return scene.count(dead) == 1; });
    // What is confirmed now makes all before it safe, the rejection too.
    scene.publish(classic, {kept, text("lost")});
    scene.publish(quorum, {text("quorum")});
    std::cout << "restart" << std::endl;
    std::string answer;
    std::getline(std::cin, answer);
    same(answer, std::string("restarted"), "answer");
    scene.again();
    for (const auto& name : {classic, quorum, dead}) same(scene.count(name), uint64_t(1), name);
    same(proton::get<std::string>(next(scene, classic).message.body()), std::string("kept"), "in the classic queue");
    same(proton::get<std::string>(next(scene, quorum).message.body()), std::string("quorum"), "in the quorum queue");
    Received received = next(scene, dead);
    unchanged(received.message);
    history(received.message, {{queue, "rejected"}}, {queue, "rejected"});
}

Scenarios death_scenarios() {
    return {{"rejected", rejected}, {"expired", expired}, {"maxlen", maxlen},
            {"delivery-limit", delivery_limit}, {"cycle", cycle}, {"restart", restart}};
}
