// The snippets of docs/clients/proton-cpp.md.
#include <proton/annotation_key.hpp>
#include <proton/connection_options.hpp>
#include <proton/container.hpp>
#include <proton/receiver_options.hpp>
#include <proton/sender_options.hpp>

#include "scene.hpp"

namespace {
// Declares a queue and the queue of its dead letters.
class Declaring : public proton::messaging_handler {
  public:
    Declaring(const std::string& url, const std::string& queue, const std::string& dead)
        : url(url), queue(queue), dead(dead) {}

    void on_container_start(proton::container& container) override {
        container.connect(url, proton::connection_options().user("guest").password("guest")
            .sasl_allowed_mechs("PLAIN").sasl_allow_insecure_mechs(true));
    }

    void on_connection_open(proton::connection& connection) override {
        std::map<proton::symbol, proton::value> paired{{"paired", true}};
        auto settled = proton::delivery_mode::AT_MOST_ONCE;
        connection.open_receiver("/management", proton::receiver_options().name("management")
            .delivery_mode(settled).properties(paired).target(proton::target_options().address("me")));
        requests = connection.open_sender("/management", proton::sender_options().name("management")
            .delivery_mode(settled).properties(paired).source(proton::source_options().address("me")));
    }

    void on_receiver_open(proton::receiver&) override {
        declare(dead, {});
        declare(queue, {{"x-dead-letter-exchange", ""}, {"x-dead-letter-routing-key", dead}});
    }

    void on_message(proton::delivery&, proton::message& answer) override {
        codes.push_back(answer.subject());      // 201, or 200 if it was there
        if (codes.size() == 2) requests.connection().close();
    }

    std::vector<std::string> codes;

  private:
    using Arguments = std::map<std::string, proton::value>;

    void declare(const std::string& name, const Arguments& arguments) {
        proton::message request(Arguments{{"arguments", arguments}});
        request.id("request");
        request.subject("PUT");
        request.to("/queues/" + name);
        request.reply_to("$me");
        requests.send(request);
    }

    std::string url, queue, dead;
    proton::sender requests;
};

// Publishes to a queue, rejects what comes out of it and reads the history of the dead letter.
class Rejecting : public proton::messaging_handler {
  public:
    Rejecting(const std::string& url, const std::string& queue, const std::string& dead)
        : url(url), queue(queue), dead(dead) {}

    void on_container_start(proton::container& container) override {
        container.connect(url, proton::connection_options().user("guest").password("guest")
            .sasl_allowed_mechs("PLAIN").sasl_allow_insecure_mechs(true));
    }

    void on_connection_open(proton::connection& connection) override {
        connection.open_sender("/queues/" + queue);
    }

    void on_sendable(proton::sender& sender) override {
        if (sent) return;
        proton::message message("order");
        message.durable(true);
        sender.send(message);
        sent = true;
    }

    void on_tracker_settle(proton::tracker& tracker) override {
        outcome = tracker.state();      // ACCEPTED, REJECTED or RELEASED
        auto options = proton::receiver_options().auto_accept(false);
        tracker.connection().open_receiver("/queues/" + queue, options);
        tracker.connection().open_receiver("/queues/" + dead, options);
    }

    void on_message(proton::delivery& delivery, proton::message& message) override {
        if (delivery.receiver().source().address() != "/queues/" + dead) {
            delivery.reject();          // or accept, release, modify
            return;
        }
        std::vector<proton::value> deaths;
        proton::get(message.message_annotations().get(proton::symbol("x-opt-deaths")), deaths);
        for (const auto& one : deaths) {
            auto death = proton::get<std::map<proton::symbol, proton::value>>(one);
            history << death["queue"] << " " << death["reason"] << " " << death["count"] << "; ";
        }
        delivery.accept();
        delivery.connection().close();
    }

    std::ostringstream history;
    Outcome outcome = proton::transfer::NONE;

  private:
    std::string url, queue, dead;
    bool sent = false;
};

void page(Scene& scene) {
    auto dead = scene.queue("-dead");
    auto queue = scene.queue();
    scene.ask("DELETE", "/queues/" + queue);
    auto url = "amqp://" + scene.setting.at("host") + ":" + scene.setting.at("amqp");
    Declaring declaring(url, queue, dead);
    proton::container(declaring).run();
    same(declaring.codes.size(), size_t(2), "answers");
    same(declaring.codes[1], std::string("201"), "answer");
    Rejecting rejecting(url, queue, dead);
    proton::container(rejecting).run();
    accepted(rejecting.outcome);
    same(rejecting.history.str(), queue + " rejected 1; ", "history");
}
}  // namespace

Scenarios page_scenarios() {
    return {{"page", page}};
}
