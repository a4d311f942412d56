#include "peer.hpp"

namespace {
std::string key(const proton::sender& link) { return "> " + link.name(); }
std::string key(const proton::receiver& link) { return "< " + link.name(); }
}  // namespace

Peer::Peer(const std::string& url, proton::connection_options options)
    : url_(url), options_(options), container_(*this) {
    thread_ = std::thread([this] { container_.run(); });
    try {
        wait("the connection does not open", [this] { return open_ || !condition_.empty(); });
        if (!condition_.empty()) throw Refused(condition_, text_);
    } catch (...) {
        container_.stop();
        thread_.join();
        throw;
    }
}

Peer::~Peer() {
    try {
        call([this] { connection_.close(); });
    } catch (const std::exception&) {
        // It is gone already.
    }
    container_.stop();
    thread_.join();
}

void Peer::on_container_start(proton::container& container) {
    container.connect(url_, options_);
}

void Peer::call(const std::function<void()>& work) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!condition_.empty()) throw Refused(condition_, text_);
    }
    auto done = std::make_shared<std::promise<void>>();
    auto ready = done->get_future();
    work_->add([done, work] {
        try {
            work();
            done->set_value();
        } catch (...) {
            done->set_exception(std::current_exception());
        }
    });
    if (ready.wait_for(limit) != std::future_status::ready) throw std::runtime_error("the connection stands still");
    ready.get();
}

void Peer::wait(const std::string& what, const std::function<bool()>& holds, std::chrono::milliseconds patience) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, patience, holds)) throw std::runtime_error(what);
}

void Peer::note(const std::function<void()>& change) {
    std::lock_guard<std::mutex> lock(mutex_);
    change();
    changed_.notify_all();
}

void Peer::note_error(Link& link, const proton::error_condition& error) {
    link.condition = error.name();
    link.text = error.description();
}

std::string Peer::sender(const std::string& given, proton::sender_options options, const std::string& address) {
    std::string name = "> " + given;
    note([&] { links_[name] = Link(); });
    Link& link = links_[name];
    call([&] { link.sender = connection_.open_sender(address, options.name(given)); });
    wait("no answer to the attach", [&] { return link.sendable || !link.condition.empty(); });
    if (!link.condition.empty()) throw Refused(link.condition, link.text);
    return name;
}

std::string Peer::receiver(const std::string& given, proton::receiver_options options, const std::string& address) {
    std::string name = "< " + given;
    options.name(given).auto_accept(false).credit_window(0);
    note([&] { links_[name] = Link(); });
    Link& link = links_[name];
    call([&] { link.receiver = connection_.open_receiver(address, options); });
    // A refused attach is answered by an attach without a source first: the detach is behind it.
    wait("no answer to the attach", [&] { return link.open || !link.condition.empty(); });
    if (link.condition.empty() && source_address(name).empty()) detached(name);
    if (!link.condition.empty()) throw Refused(link.condition, link.text);
    return name;
}

Outcome Peer::send(const std::string& name, const proton::message& message) {
    Link& link = links_[name];
    call([&] { link.sender.send(message); });
    wait("no outcome", [&] { return !link.outcomes.empty() || !link.condition.empty(); });
    if (link.outcomes.empty()) throw Refused(link.condition, link.text);
    auto state = link.outcomes.front();
    link.outcomes.pop_front();
    return state;
}

void Peer::send_settled(const std::string& name, const proton::message& message) {
    call([&] { links_[name].sender.send(message); });
}

void Peer::credit(const std::string& name, uint32_t count) {
    call([&] { links_[name].receiver.add_credit(count); });
}

void Peer::drain(const std::string& name) {
    Link& link = links_[name];
    call([&] { link.receiver.drain(); });
    wait("the drain does not end", [&] { return link.drained; });
}

Received Peer::receive(const std::string& name, std::chrono::milliseconds patience) {
    Link& link = links_[name];
    wait("no message", [&] { return !link.inbox.empty() || !link.condition.empty(); }, patience);
    std::lock_guard<std::mutex> lock(mutex_);
    if (link.inbox.empty()) throw Refused(link.condition, link.text);
    Received received = link.inbox.front();
    link.inbox.pop_front();
    return received;
}

bool Peer::nothing(const std::string& name) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::lock_guard<std::mutex> lock(mutex_);
    return links_[name].inbox.empty();
}

void Peer::settle(const Received& received, const std::function<void(proton::delivery&)>& how) {
    proton::delivery delivery = received.delivery;
    call([&] { how(delivery); });
}

void Peer::close(const std::string& name) {
    Link& link = links_[name];
    call([&] {
        if (link.sender) link.sender.close();
        if (link.receiver) link.receiver.close();
    });
}

std::string Peer::detached(const std::string& name) {
    Link& link = links_[name];
    wait("the link is not detached", [&] { return !link.condition.empty(); });
    return link.condition;
}

std::string Peer::closed() {
    wait("the connection is not closed", [this] { return !condition_.empty(); });
    return condition_;
}

std::string Peer::source_address(const std::string& name) {
    std::string address;
    call([&] { address = links_[name].receiver.source().address(); });
    return address;
}

void Peer::on_connection_open(proton::connection& connection) {
    note([&] {
        connection_ = connection;
        work_ = &connection.work_queue();
        open_ = true;
    });
}

void Peer::on_connection_error(proton::connection& connection) {
    note([&] {
        condition_ = connection.error().name();
        text_ = connection.error().description();
    });
}

void Peer::on_transport_error(proton::transport& transport) {
    note([&] {
        condition_ = transport.error().name();
        text_ = transport.error().description();
    });
}

void Peer::on_sendable(proton::sender& sender) {
    note([&] { links_[key(sender)].sendable = true; });
}

void Peer::on_sender_open(proton::sender& sender) {
    note([&] { links_[key(sender)].open = true; });
}

void Peer::on_sender_error(proton::sender& sender) {
    note([&] { note_error(links_[key(sender)], sender.error()); });
}

void Peer::on_receiver_open(proton::receiver& receiver) {
    note([&] { links_[key(receiver)].open = true; });
}

void Peer::on_receiver_error(proton::receiver& receiver) {
    note([&] { note_error(links_[key(receiver)], receiver.error()); });
}

void Peer::on_receiver_drain_finish(proton::receiver& receiver) {
    note([&] { links_[key(receiver)].drained = true; });
}

void Peer::on_message(proton::delivery& delivery, proton::message& message) {
    note([&] { links_[key(delivery.receiver())].inbox.push_back({message, delivery}); });
}

void Peer::on_tracker_settle(proton::tracker& tracker) {
    note([&] { links_[key(tracker.sender())].outcomes.push_back(tracker.state()); });
}
