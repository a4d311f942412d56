package main

import (
	"context"
	"time"

	"coroner/interop/test"

	"github.com/Azure/go-amqp"
)

var deaths = []test.Scenario[*scene]{
	{Name: "rejected", Run: rejected},
	{Name: "expired", Run: expired},
	{Name: "maxlen", Run: maxlen},
	{Name: "delivery-limit", Run: deliveryLimit},
	{Name: "cycle", Run: cycle},
	{Name: "restart", Run: restart},
}

// pair declares a queue, and one for its dead letters.
func pair(s *scene, more map[string]any) (queue, dead string) {
	dead = s.queue("-dead", nil)
	arguments := test.To(dead)
	for key, value := range more {
		arguments[key] = value
	}
	return s.queue("", arguments), dead
}

func reject(receiver *amqp.Receiver, message *amqp.Message) {
	test.Check(receiver.RejectMessage(context.Background(), message, nil))
}

func rejected(s *scene) {
	last := s.queue("-last", nil)
	dead := s.queue("-dead", test.To(last))
	queue := s.queue("", test.To(dead))
	s.publish(queue, test.Letter(amqp.MessageHeader{TTL: time.Minute}))
	receiver := s.receiver(queue, nil)
	reject(receiver, receive(receiver))
	reader := s.receiver(dead, nil)
	message := receive(reader)
	test.Unchanged(message)
	test.Equal("ttl of the dead letter", message.Header.TTL, 0)
	once := test.Death{Queue: queue, Reason: "rejected", Count: 1, TTL: uint32(60_000)}
	test.History(message, once, once)
	reject(reader, message)
	message = receive(s.receiver(last, nil))
	test.Unchanged(message)
	test.History(message, once, test.Death{Queue: dead, Reason: "rejected", Count: 1}, once)
}

func expired(s *scene) {
	queue, dead := pair(s, map[string]any{"x-message-ttl": uint64(100)})
	receiver := s.receiver(dead, nil)
	begun := time.Now()
	s.publish(queue, test.Letter(amqp.MessageHeader{}))
	message := receive(receiver)
	test.Equal("within a second", time.Since(begun) < time.Second, true)
	test.Unchanged(message)
	once := test.Death{Queue: queue, Reason: "expired", Count: 1}
	test.History(message, once, once)
}

func maxlen(s *scene) {
	queue, dead := pair(s, map[string]any{"x-max-length": uint64(1)})
	s.publish(queue, test.Letter(amqp.MessageHeader{}), &amqp.Message{Value: "second"})
	message := receive(s.receiver(dead, nil))
	test.Unchanged(message)
	once := test.Death{Queue: queue, Reason: "maxlen", Count: 1}
	test.History(message, once, once)
	test.Equal("left in the queue", s.count(queue), 1)
}

func deliveryLimit(s *scene) {
	queue, dead := pair(s, map[string]any{"x-queue-type": "quorum", "x-delivery-limit": uint64(1)})
	s.publish(queue, test.Letter(amqp.MessageHeader{}))
	receiver := s.receiver(queue, nil)
	for count := range uint32(2) {
		message := receive(receiver)
		test.Equal("delivery-count", message.Header.DeliveryCount, count)
		options := &amqp.ModifyMessageOptions{DeliveryFailed: true}
		test.Check(receiver.ModifyMessage(context.Background(), message, options))
	}
	message := receive(s.receiver(dead, nil))
	test.Unchanged(message)
	once := test.Death{Queue: queue, Reason: "delivery_limit", Count: 1}
	test.History(message, once, once)
}

func cycle(s *scene) {
	alone := s.queue("-alone", map[string]any{"x-message-ttl": uint64(50), "x-dead-letter-exchange": ""})
	s.publish(alone, test.Letter(amqp.MessageHeader{}))
	test.Until("it still turns", func() bool { return s.count(alone) == 0 })
	queue := s.queue("-rejected", map[string]any{"x-dead-letter-exchange": ""})
	s.publish(queue, test.Letter(amqp.MessageHeader{}))
	receiver := s.receiver(queue, nil)
	for range 2 {
		reject(receiver, receive(receiver))
	}
	twice := test.Death{Queue: queue, Reason: "rejected", Count: 2}
	test.History(receive(receiver), twice, twice)
}

func restart(s *scene) {
	quorumType := map[string]any{"x-queue-type": "quorum"}
	classic, quorum := s.queue("-classic", nil), s.queue("-quorum", quorumType)
	queue, dead := pair(s, quorumType)
	s.publish(queue, test.Letter(amqp.MessageHeader{Durable: true}))
	receiver := s.receiver(queue, nil)
	reject(receiver, receive(receiver))
	test.Until("it is not dead-lettered", func() bool { return s.count(dead) == 1 })
	// What is confirmed now makes all before it safe, the rejection too.
	s.publish(classic, &amqp.Message{Header: &amqp.MessageHeader{Durable: true}, Value: "kept"},
		&amqp.Message{Value: "lost"})
	s.publish(quorum, &amqp.Message{Value: "quorum"})
	test.RestartBroker()
	s.again()
	for _, kept := range []string{classic, quorum, dead} {
		test.Equal(kept, s.count(kept), 1)
	}
	test.Equal("in the classic queue", receive(s.receiver(classic, nil)).Value, any("kept"))
	test.Equal("in the quorum queue", receive(s.receiver(quorum, nil)).Value, any("quorum"))
	message := receive(s.receiver(dead, nil))
	test.Unchanged(message)
	once := test.Death{Queue: queue, Reason: "rejected", Count: 1}
	test.History(message, once, once)
}
