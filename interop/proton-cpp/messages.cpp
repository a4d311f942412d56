// Every type and section goes out and comes back the same.
#include <proton/byte_array.hpp>
#include <proton/decimal.hpp>
#include <proton/duration.hpp>
#include <proton/timestamp.hpp>
#include <proton/uuid.hpp>

#include "scene.hpp"

static proton::message through(Scene& scene, const proton::message& message, const std::string& suffix = "") {
    auto queue = scene.queue(suffix);
    scene.publish(queue, {message});
    auto receiver = scene.receiver(queue);
    Received received = scene.peer->receive(receiver);
    accept(*scene.peer, received);
    return received.message;
}

static void sections(Scene& scene) {
    proton::message sent("body");
    sent.id("id-1");
    sent.user(scene.setting["user"]);
    sent.to("/somewhere");
    sent.subject("subject");
    sent.reply_to("/answers");
    sent.correlation_id(uint64_t(7));
    sent.content_type("text/plain");
    sent.content_encoding("gzip");
    sent.expiry_time(proton::timestamp(4102444800000));
    sent.creation_time(proton::timestamp(1700000000000));
    sent.group_id("group");
    sent.group_sequence(3);
    sent.reply_to_group_id("answers");
    sent.durable(true);
    sent.priority(7);
    sent.ttl(proton::duration(600000));
    sent.properties().put("n", int64_t(7));
    sent.properties().put("s", "text");
    sent.message_annotations().put("x-opt-text", "note");
    sent.message_annotations().put("x-opt-list", std::vector<proton::value>{1, "two"});
    proton::message got = through(scene, sent);
    same(show(got.id()), show(sent.id()), "message-id");
    same(got.user(), sent.user(), "user-id");
    same(got.to(), sent.to(), "to");
    same(got.subject(), sent.subject(), "subject");
    same(got.reply_to(), sent.reply_to(), "reply-to");
    check(got.correlation_id() == sent.correlation_id(), "correlation-id");
    same(got.content_type(), sent.content_type(), "content-type");
    same(got.content_encoding(), sent.content_encoding(), "content-encoding");
    check(got.expiry_time() == sent.expiry_time(), "absolute-expiry-time");
    check(got.creation_time() == sent.creation_time(), "creation-time");
    same(got.group_id(), sent.group_id(), "group-id");
    same(got.group_sequence(), sent.group_sequence(), "group-sequence");
    same(got.reply_to_group_id(), sent.reply_to_group_id(), "reply-to-group-id");
    check(got.durable(), "durable");
    same(int(got.priority()), 7, "priority");
    check(got.ttl() == sent.ttl(), "ttl");
    check(got.properties().get("n") == sent.properties().get("n"), "application property n");
    check(got.properties().get("s") == sent.properties().get("s"), "application property s");
    for (const char* key : {"x-opt-text", "x-opt-list"}) {
        check(got.message_annotations().get(key) == sent.message_annotations().get(key), key);
    }
    same(show(got.body()), show(sent.body()), "body");
}

static void types(Scene& scene) {
    Arguments simple{
        {"boolean", true}, {"ubyte", uint8_t(255)}, {"ushort", uint16_t(65535)}, {"uint", uint32_t(-1)},
        {"ulong", uint64_t(-1)}, {"byte", int8_t(-128)}, {"short", int16_t(-32768)},
        {"int", int32_t(-2147483647)}, {"long", int64_t(-9223372036854775807)}, {"float", 1.5f},
        {"double", 2.5}, {"char", wchar_t(0x20ac)}, {"timestamp", proton::timestamp(1700000000123)},
        {"uuid", proton::uuid::copy("0123456789abcdef")}, {"binary", proton::binary(std::string("\0\xff", 2))},
        {"string", "gr\u00fc\u00dfe"}, {"symbol", proton::symbol("sym")},
        {"decimal32", proton::decimal32()}, {"decimal64", proton::decimal64()}, {"decimal128", proton::decimal128()}};
    Arguments all = simple;
    all["null"] = null();
    all["list"] = std::vector<proton::value>{1, "two"};
    all["map"] = Arguments{{"a", 1}};
    all["array"] = std::vector<int32_t>{1, 2};
    proton::message sent(all);
    for (const auto& one : simple) {
        sent.properties().put(one.first, proton::scalar(one.second.type() == proton::NULL_TYPE
            ? proton::scalar() : proton::get<proton::scalar>(one.second)));
    }
    proton::message got = through(scene, sent);
    auto body = proton::get<Arguments>(got.body());
    same(body.size(), all.size(), "values");
    for (const auto& one : all) {
        same(proton::type_id(body[one.first].type()), one.second.type(), one.first + ": type");
        check(body[one.first] == one.second, one.first + ": " + show(body[one.first]));
    }
    for (const auto& one : simple) {
        check(proton::value(got.properties().get(one.first)) == one.second, "application property " + one.first);
    }
}

static void bodies(Scene& scene) {
    // Proton writes one body section: data for binary if inferred, else a value.
    proton::message data(proton::binary(std::string("data")));
    data.inferred(true);
    proton::message got = through(scene, data, "-data");
    check(got.inferred() && got.body() == data.body(), "data");
    proton::message sequence(std::vector<proton::value>{1, "two"});
    sequence.inferred(true);
    got = through(scene, sequence, "-sequence");
    check(got.inferred() && got.body() == sequence.body(), "sequence");
    proton::message value("one value");
    got = through(scene, value, "-value");
    check(got.body() == value.body(), "value");
    proton::message empty{proton::value(proton::binary())};
    empty.inferred(true);
    check(proton::get<proton::binary>(through(scene, empty, "-empty").body()).empty(), "empty data");
}

static void large(Scene& scene) {
    std::string body;
    body.reserve(10 * 1024 * 1024);
    for (size_t at = 0; at < 10 * 1024 * 1024; ++at) body.push_back(char(at * 7));
    proton::binary sent(body);
    check(proton::get<proton::binary>(through(scene, proton::message(sent)).body()) == sent, "body");
}

Scenarios message_scenarios() {
    return {{"sections", sections}, {"types", types}, {"bodies", bodies}, {"large", large}};
}
