// Outcomes, credit, drain, termini, filters.
#include <proton/codec/encoder.hpp>

#include "scene.hpp"

static std::vector<proton::message> numbered(int count) {
    std::vector<proton::message> messages;
    for (int n = 0; n < count; ++n) messages.push_back(text(std::to_string(n)));
    return messages;
}

static std::string body(const proton::message& message) {
    return proton::get<std::string>(message.body());
}

static void outcomes(Scene& scene) {
    Peer& peer = *scene.peer;
    auto dead = scene.queue("-dead");
    auto queue = scene.queue("", dead_lettered_to(dead));
    scene.publish(queue, {text("accepted"), text("released"), text("modified"), text("rejected")});
    auto receiver = scene.receiver(queue, 0);
    auto comes = [&](const std::string& name, bool first) {
        scene.count(queue);     // Proton writes credit in front of outcomes that wait: this lets them go
        peer.credit(receiver, 1);
        Received received = peer.receive(receiver);
        same(body(received.message), name, "message");
        same(received.message.first_acquirer(), first, "first-acquirer of " + name);
        same(received.message.delivery_count(), 0u, "delivery-count of " + name);
        return received;
    };
    accept(peer, comes("accepted", true));
    peer.settle(comes("released", true), [](proton::delivery& delivery) { delivery.release(); });
    accept(peer, comes("released", false));
    // Proton C++ 0.37 has no fields for modified and rejected: neither failed, nor annotations.
    peer.settle(comes("modified", true), [](proton::delivery& delivery) { delivery.modify(); });
    accept(peer, comes("modified", false));
    peer.settle(comes("rejected", true), [](proton::delivery& delivery) { delivery.reject(); });
    auto reader = scene.receiver(dead);
    same(body(peer.receive(reader).message), std::string("rejected"), "dead letter");
    same(scene.count(queue), uint64_t(0), "left in the queue");
}

static void refusals(Scene& scene) {
    Peer& peer = *scene.peer;
    std::string exchange = scene.prefix + "-exchange";
    scene.ask("PUT", "/exchanges/" + exchange, only("type", "direct"), {204});
    auto nowhere = peer.sender("nowhere", {}, "/exchanges/" + exchange + "/nowhere");
    same(proton::to_string(peer.send(nowhere, text("x"))), std::string("released"), "outcome");
    scene.ask("DELETE", "/exchanges/" + exchange, {}, {204});
    auto queue = scene.queue("", {{"x-max-length", uint64_t(1)}, {"x-overflow", "reject-publish"}});
    auto sender = peer.sender("full", {}, "/queues/" + queue);
    accepted(peer.send(sender, text("x")));
    // Proton C++ 0.37 does not show the error of an outcome.
    same(proton::to_string(peer.send(sender, text("x"))), std::string("rejected"), "outcome");
}

static void credit(Scene& scene) {
    Peer& peer = *scene.peer;
    auto queue = scene.queue();
    scene.publish(queue, numbered(5));
    auto receiver = scene.receiver(queue, 0);
    check(peer.nothing(receiver), "a message without credit");
    peer.credit(receiver, 2);
    Received first = peer.receive(receiver), second = peer.receive(receiver);
    check(peer.nothing(receiver), "more than the credit");
    accept(peer, first);
    accept(peer, second);
    peer.credit(receiver, 3);
    for (int n = 2; n < 5; ++n) {
        Received received = peer.receive(receiver);
        same(body(received.message), std::to_string(n), "message");
        accept(peer, received);
    }
    scene.publish(queue, {text("5")});
    check(peer.nothing(receiver), "a message without credit");
}

static void drain(Scene& scene) {
    Peer& peer = *scene.peer;
    auto queue = scene.queue();
    scene.publish(queue, numbered(3));
    auto receiver = scene.receiver(queue, 10);
    peer.drain(receiver);
    for (int n = 0; n < 3; ++n) same(body(peer.receive(receiver).message), std::to_string(n), "message");
    scene.publish(queue, {text("late")});
    check(peer.nothing(receiver), "a message without credit");
}

static void presettled(Scene& scene) {
    Peer& peer = *scene.peer;
    auto queue = scene.queue();
    auto mode = proton::delivery_mode::AT_MOST_ONCE;
    auto sender = peer.sender("settled", proton::sender_options().delivery_mode(mode), "/queues/" + queue);
    peer.send_settled(sender, text("settled"));
    until("it does not arrive", [&] { return scene.count(queue) == 1; });
    auto receiver = scene.receiver(queue, 10, proton::receiver_options().delivery_mode(mode));
    Received received = peer.receive(receiver);
    same(body(received.message), std::string("settled"), "body");
    peer.close(receiver);
    same(scene.count(queue), uint64_t(0), "left in the queue");
}

static void anonymous_terminus(Scene& scene) {
    Peer& peer = *scene.peer;
    auto one = scene.queue("-one"), two = scene.queue("-two"), bound = scene.queue("-bound");
    std::string exchange = scene.prefix + "-exchange";
    scene.ask("PUT", "/exchanges/" + exchange, only("type", "fanout"), {204});
    scene.ask("POST", "/bindings", Arguments{{"source", exchange}, {"destination_queue", bound},
        {"binding_key", ""}, {"arguments", Arguments{}}}, {204});
    auto anonymous = proton::target_options().anonymous(true);
    auto sender = peer.sender("anonymous", proton::sender_options().target(anonymous), "");
    for (const auto& to : {"/queues/" + one, "/queues/" + two, "/exchanges/" + exchange}) {
        proton::message message = text(to);
        message.to(to);
        accepted(peer.send(sender, message));
    }
    for (const auto& queue : {one, two, bound}) same(scene.count(queue), uint64_t(1), queue);
    same(proton::to_string(peer.send(sender, text("to nobody"))), std::string("rejected"), "outcome");
    scene.ask("DELETE", "/exchanges/" + exchange, {}, {204});
}

static void attach_refused(Scene& scene) {
    Peer& peer = *scene.peer;
    std::string missing = scene.prefix + "-missing";
    auto refused = [&](const std::string& expected, const std::function<void()>& attempt) {
        same(refusal(attempt), expected, "condition");
    };
    refused("amqp:not-found", [&] { scene.receiver(missing); });
    refused("amqp:not-found", [&] { peer.sender("missing", {}, "/queues/" + missing); });
    refused("amqp:invalid-field", [&] { peer.sender("nonsense", {}, "/nonsense/x"); });
    auto queue = scene.queue();
    auto exclusive = proton::receiver_options().properties({{"exclusive", true}});
    auto alone = scene.receiver(queue, 0, exclusive);
    refused("amqp:resource-locked", [&] { scene.receiver(queue); });
    peer.close(alone);
    scene.publish(queue, {text("the session lives")});
    auto receiver = scene.receiver(queue);
    same(body(peer.receive(receiver).message), std::string("the session lives"), "body");
}

static void deleted(Scene& scene) {
    auto queue = scene.queue();
    auto receiver = scene.receiver(queue);
    scene.ask("DELETE", "/queues/" + queue, {}, {200});
    same(scene.peer->detached(receiver), std::string("amqp:resource-deleted"), "condition");
}

static void dynamic(Scene& scene) {
    auto source = proton::source_options().dynamic(true);
    auto receiver = scene.peer->receiver("temporary", proton::receiver_options().source(source), "");
    std::string address = scene.peer->source_address(receiver);
    scene.peer->credit(receiver, 1);
    auto other = scene.connect(scene.plain());
    auto sender = other->sender("answers", {}, address);
    accepted(other->send(sender, text("answer")));
    same(body(scene.peer->receive(receiver).message), std::string("answer"), "body");
    other->close(sender);
    scene.peer->close(receiver);
    scene.count(scene.queue());     // the close has arrived
    same(refusal([&] { other->sender("late", {}, address); }), std::string("amqp:not-found"), "condition");
}

static void selector(Scene& scene) {
    auto queue = scene.queue();
    std::vector<proton::message> messages;
    for (const char* colour : {"red", "blue", "red", "green", "red", "blue"}) {
        proton::message message(colour);
        message.id(uint64_t(messages.size()));
        message.properties().put("colour", colour);
        messages.push_back(message);
    }
    scene.publish(queue, messages);
    proton::value filter;
    proton::codec::encoder encoder(filter);
    encoder << proton::codec::start::described() << proton::symbol("apache.org:selector-filter:string")
            << "colour = 'red'" << proton::codec::finish();
    proton::source::filter_map filters;
    filters.put("selector", filter);
    auto source = proton::source_options().filters(filters);
    auto red = scene.receiver(queue, 10, proton::receiver_options().source(source));
    for (uint64_t id : {0, 2, 4}) {
        Received received = scene.peer->receive(red);
        check(received.message.id() == proton::message_id(id), "message-id " + show(received.message.id()));
        accept(*scene.peer, received);
    }
    check(scene.peer->nothing(red), "one that is not red");
    auto rest = scene.receiver(queue);
    for (const char* colour : {"blue", "green", "blue"}) {
        same(body(scene.peer->receive(rest).message), std::string(colour), "the rest");
    }
}

Scenarios link_scenarios() {
    return {{"outcomes", outcomes}, {"refusals", refusals}, {"credit", credit}, {"drain", drain},
            {"presettled", presettled}, {"anonymous-terminus", anonymous_terminus},
            {"attach-refused", attach_refused}, {"deleted", deleted}, {"dynamic", dynamic},
            {"selector", selector}};
}
