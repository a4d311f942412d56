// SASL, TLS, vhosts, frames, management.
#include <proton/ssl.hpp>

#include "scene.hpp"

static void refused_login(Scene& scene, const proton::connection_options& options) {
    std::string condition = refusal([&] { scene.connect(options); });
    same(condition, std::string("amqp:unauthorized-access"), "condition");
}

static void plain(Scene& scene) {
    refused_login(scene, scene.plain("wrong"));
    scene.connect(scene.plain());
}

static void goes_through(Scene& scene, Peer& peer) {
    auto queue = scene.queue();
    auto sender = peer.sender("through", {}, "/queues/" + queue);
    accepted(peer.send(sender, text("through")));
    auto receiver = scene.receiver(queue);
    same(proton::get<std::string>(scene.peer->receive(receiver).message.body()), std::string("through"), "body");
}

static void anonymous(Scene& scene) {
    goes_through(scene, *scene.connect(proton::connection_options().sasl_allowed_mechs("ANONYMOUS")));
}

static void scram(Scene&) {
    throw Skip("Debian builds Proton 0.37 without Cyrus SASL: PLAIN, ANONYMOUS and EXTERNAL only");
}

static void tls(Scene& scene) {
    auto options = scene.plain();
    scene.connect(options.ssl_client_options(proton::ssl_client_options(scene.setting["ca"])), "amqps");
}

static void external(Scene& scene) {
    proton::ssl_certificate certificate(scene.setting["certificate"], scene.setting["key"]);
    proton::connection_options options;
    options.sasl_allowed_mechs("EXTERNAL");
    scene.connect(options.ssl_client_options({certificate, scene.setting["ca"]}), "amqps");
}

static void no_sasl(Scene& scene) {
    goes_through(scene, *scene.connect(proton::connection_options().sasl_enabled(false), "bare"));
}

static void vhost(Scene& scene) {
    auto other = scene.connect(scene.plain().virtual_host("vhost:" + scene.setting["vhost"]));
    std::string name = scene.prefix;
    scene.ask("PUT", "/queues/" + name, Arguments{}, {200, 201}, other.get());
    same(refusal([&] { scene.receiver(name); }), std::string("amqp:not-found"), "condition");
    other->receiver("there", {}, "/queues/" + name);
    scene.ask("DELETE", "/queues/" + name, {}, {200}, other.get());
    std::string condition = refusal([&] {
        // The broker opens before it closes.
        auto unknown = scene.connect(scene.plain().virtual_host("vhost:interop-missing"));
        throw Refused(unknown->closed(), "");
    });
    same(condition, std::string("amqp:not-found"), "condition");
}

static void frames(Scene& scene) {
    auto queue = scene.queue();
    auto small = scene.connect(scene.plain().max_frame_size(512));
    proton::binary body(std::string(20000, 'f'));
    accepted(small->send(small->sender("out", {}, "/queues/" + queue), proton::message(body)));
    auto in = small->receiver("in", {}, "/queues/" + queue);
    small->credit(in, 1);
    check(proton::get<proton::binary>(small->receive(in).message.body()) == body, "body");
}

static Arguments limit_of(uint64_t length) {
    return {{"arguments", Arguments{{"x-max-length", length}}}};
}

static void declare(Scene& scene) {
    std::string name = scene.queue(), queue = "/queues/" + name, exchange = name + "-exchange";
    scene.ask("DELETE", queue);
    scene.ask("PUT", queue, limit_of(5), {201});
    scene.ask("PUT", queue, limit_of(5), {200});
    scene.ask("PUT", queue, limit_of(6), {409});
    auto info = proton::get<Arguments>(scene.ask("GET", queue, {}, {200}));
    same(proton::get<std::string>(info["name"]), name, "name");
    same(proton::get<std::string>(info["type"]), std::string("classic"), "type");
    scene.ask("PUT", "/exchanges/" + exchange, only("type", "topic"), {204});
    scene.ask("POST", "/bindings", Arguments{{"source", exchange}, {"destination_queue", name},
        {"binding_key", "a.#"}, {"arguments", Arguments{}}}, {204});
    std::string path = "/bindings?src=" + exchange + "&dstq=" + name + "&key=a.%23";
    using List = std::vector<proton::value>;
    auto found = proton::get<List>(scene.ask("GET", path, {}, {200}));
    same(found.size(), size_t(1), "bindings");
    scene.ask("DELETE", proton::get<std::string>(proton::get<Arguments>(found[0])["location"]), {}, {204});
    same(proton::get<List>(scene.ask("GET", path, {}, {200})).size(), size_t(0), "bindings");
    scene.publish(name, {text("one"), text("two")});
    auto purged = proton::get<Arguments>(scene.ask("DELETE", queue + "/messages", {}, {200}));
    same(proton::coerce<uint64_t>(purged["message_count"]), uint64_t(2), "purged");
    scene.ask("DELETE", "/exchanges/" + exchange, {}, {204});
    scene.ask("DELETE", queue, {}, {200});
    scene.ask("GET", queue, {}, {404});
}

Scenarios connection_scenarios() {
    return {{"plain", plain}, {"anonymous", anonymous}, {"scram", scram}, {"tls", tls},
            {"external", external}, {"no-sasl", no_sasl}, {"vhost", vhost}, {"frames", frames},
            {"declare", declare}};
}
