package test

import (
	"time"

	"github.com/Azure/go-amqp"
)

// Station is a scene with queues: what the scenarios of dead letters need of a client.
type Station interface {
	Scene
	// Queue declares a new queue.
	Queue(suffix string, arguments map[string]any) string
	// Publish sends messages to a queue; all of them are accepted.
	Publish(queue string, messages ...*amqp.Message)
	// Count is how many messages are ready in a queue.
	Count(queue string) uint64
	// Open begins to consume from a queue.
	Open(queue string) Inbox
	// Again connects anew after a restart.
	Again()
}

// Inbox is where the messages of a queue arrive.
type Inbox interface {
	// Next waits for a message, and gives what rejects it.
	Next() (message *amqp.Message, reject func())
}

// Deaths are the scenarios of messages that die.
func Deaths[S Station]() []Scenario[S] {
	return []Scenario[S]{
		{"rejected", rejected[S]}, {"expired", expired[S]}, {"maxlen", maxlen[S]}, {"cycle", cycle[S]},
		{"restart", restart[S]},
	}
}

// Pair declares a queue, and one for its dead letters.
func Pair(s Station, more map[string]any) (queue, dead string) {
	dead = s.Queue("-dead", nil)
	arguments := To(dead)
	for key, value := range more {
		arguments[key] = value
	}
	return s.Queue("", arguments), dead
}

// Read is the next message of a queue.
func Read(s Station, queue string) *amqp.Message {
	message, _ := s.Open(queue).Next()
	return message
}

// Reject refuses a message.
func Reject(inbox Inbox) {
	_, reject := inbox.Next()
	reject()
}

// transient has a header: some clients make a message without one durable.
func transient(value string) *amqp.Message {
	return &amqp.Message{Header: &amqp.MessageHeader{}, Value: value}
}

func rejected[S Station](s S) {
	last := s.Queue("-last", nil)
	dead := s.Queue("-dead", To(last))
	queue := s.Queue("", To(dead))
	s.Publish(queue, Letter(amqp.MessageHeader{TTL: time.Minute}))
	Reject(s.Open(queue))
	message, reject := s.Open(dead).Next()
	Unchanged(message)
	Equal("ttl of the dead letter", message.Header.TTL, 0)
	once := Death{Queue: queue, Reason: "rejected", Count: 1, TTL: uint32(60_000)}
	History(message, once, once)
	reject()
	message = Read(s, last)
	Unchanged(message)
	History(message, once, Death{Queue: dead, Reason: "rejected", Count: 1}, once)
}

func expired[S Station](s S) {
	queue, dead := Pair(s, map[string]any{"x-message-ttl": int64(100)})
	inbox := s.Open(dead)
	begun := time.Now()
	s.Publish(queue, Letter(amqp.MessageHeader{}))
	message, _ := inbox.Next()
	Equal("within 5 s", time.Since(begun) < 5*time.Second, true)
	Unchanged(message)
	once := Death{Queue: queue, Reason: "expired", Count: 1}
	History(message, once, once)
}

func maxlen[S Station](s S) {
	queue, dead := Pair(s, map[string]any{"x-max-length": int64(1)})
	s.Publish(queue, Letter(amqp.MessageHeader{}), &amqp.Message{Value: "second"})
	message := Read(s, dead)
	Unchanged(message)
	once := Death{Queue: queue, Reason: "maxlen", Count: 1}
	History(message, once, once)
	Equal("left in the queue", s.Count(queue), 1)
}

func cycle[S Station](s S) {
	alone := s.Queue("-alone", map[string]any{"x-message-ttl": int64(50), "x-dead-letter-exchange": ""})
	s.Publish(alone, Letter(amqp.MessageHeader{}))
	Until("it still turns", func() bool { return s.Count(alone) == 0 })
	queue := s.Queue("-rejected", map[string]any{"x-dead-letter-exchange": ""})
	s.Publish(queue, Letter(amqp.MessageHeader{}))
	inbox := s.Open(queue)
	for range 2 {
		Reject(inbox)
	}
	message, _ := inbox.Next()
	twice := Death{Queue: queue, Reason: "rejected", Count: 2}
	History(message, twice, twice)
}

func restart[S Station](s S) {
	quorumType := map[string]any{"x-queue-type": "quorum"}
	classic, quorum := s.Queue("-classic", nil), s.Queue("-quorum", quorumType)
	queue, dead := Pair(s, quorumType)
	s.Publish(queue, Letter(amqp.MessageHeader{Durable: true}))
	Reject(s.Open(queue))
	Until("it is not dead-lettered", func() bool { return s.Count(dead) == 1 })
	// What is confirmed now makes all before it safe, the rejection too.
	durable := &amqp.Message{Header: &amqp.MessageHeader{Durable: true}, Value: "kept"}
	s.Publish(classic, durable, transient("lost"))
	s.Publish(quorum, transient("quorum"))
	RestartBroker()
	s.Again()
	for _, kept := range []string{classic, quorum, dead} {
		Equal(kept, s.Count(kept), 1)
	}
	Equal("in the classic queue", Read(s, classic).Value, any("kept"))
	Equal("in the quorum queue", Read(s, quorum).Value, any("quorum"))
	message := Read(s, dead)
	Unchanged(message)
	once := Death{Queue: queue, Reason: "rejected", Count: 1}
	History(message, once, once)
}
