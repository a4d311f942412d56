// Proton's C++ client calls back; the scenarios want to call and wait. Between them: one connection
// in a thread of its own, and queues of what happened.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include <proton/connection.hpp>
#include <proton/connection_options.hpp>
#include <proton/container.hpp>
#include <proton/delivery.hpp>
#include <proton/error_condition.hpp>
#include <proton/message.hpp>
#include <proton/messaging_handler.hpp>
#include <proton/receiver.hpp>
#include <proton/receiver_options.hpp>
#include <proton/sender.hpp>
#include <proton/sender_options.hpp>
#include <proton/source.hpp>
#include <proton/source_options.hpp>
#include <proton/target.hpp>
#include <proton/target_options.hpp>
#include <proton/tracker.hpp>
#include <proton/transport.hpp>
#include <proton/work_queue.hpp>

constexpr std::chrono::seconds limit{10};

// The broker said no; `condition` says how.
struct Refused : std::runtime_error {
    std::string condition;
    Refused(const std::string& condition, const std::string& text)
        : std::runtime_error(condition + ": " + text), condition(condition) {}
};

using Outcome = enum proton::transfer::state;

struct Received {
    proton::message message;
    proton::delivery delivery;
};

// What is known of one link.
struct Link {
    proton::sender sender;
    proton::receiver receiver;
    bool open = false, sendable = false, drained = false;
    std::string condition, text;
    std::deque<Received> inbox;
    std::deque<Outcome> outcomes;
};

class Peer : public proton::messaging_handler {
  public:
    Peer(const std::string& url, proton::connection_options options);
    ~Peer();
    Peer(const Peer&) = delete;

    // Attach a link and wait for the answer; throws Refused. What comes back names the link to the
    // functions below: its role and its name, for two links may share that.
    std::string sender(const std::string& name, proton::sender_options options, const std::string& address);
    std::string receiver(const std::string& name, proton::receiver_options options, const std::string& address);
    // Send a message and wait for its outcome, unless it is settled.
    Outcome send(const std::string& link, const proton::message& message);
    void send_settled(const std::string& link, const proton::message& message);
    void credit(const std::string& link, uint32_t count);
    void drain(const std::string& link);
    // The next message, and its settlement.
    Received receive(const std::string& link, std::chrono::milliseconds patience = limit);
    bool nothing(const std::string& link);
    void settle(const Received& received, const std::function<void(proton::delivery&)>& how);
    void close(const std::string& link);
    // Waits until the broker detached the link; the condition.
    std::string detached(const std::string& link);
    // Waits until the broker closed the connection; the condition.
    std::string closed();
    std::string source_address(const std::string& link);

    void on_container_start(proton::container& container) override;
    void on_connection_open(proton::connection& connection) override;
    void on_connection_error(proton::connection& connection) override;
    void on_transport_error(proton::transport& transport) override;
    void on_sendable(proton::sender& sender) override;
    void on_sender_open(proton::sender& sender) override;
    void on_sender_error(proton::sender& sender) override;
    void on_receiver_open(proton::receiver& receiver) override;
    void on_receiver_error(proton::receiver& receiver) override;
    void on_receiver_drain_finish(proton::receiver& receiver) override;
    void on_message(proton::delivery& delivery, proton::message& message) override;
    void on_tracker_settle(proton::tracker& tracker) override;

  private:
    // Runs something on the connection's thread and waits for it.
    void call(const std::function<void()>& work);
    void wait(const std::string& what, const std::function<bool()>& holds,
              std::chrono::milliseconds patience = limit);
    void note(const std::function<void()>& change);
    void note_error(Link& link, const proton::error_condition& error);

    std::string url_;
    proton::connection_options options_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, Link> links_;
    bool open_ = false;
    std::string condition_, text_;
    proton::connection connection_;
    proton::work_queue* work_ = nullptr;
    proton::container container_;
    std::thread thread_;
};
