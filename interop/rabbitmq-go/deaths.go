package main

import (
	"time"

	"coroner/interop/test"

	"github.com/Azure/go-amqp"
	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
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
	dead = s.declared("-dead", nil)
	arguments := test.To(dead)
	for key, value := range more {
		arguments[key] = value
	}
	return s.declared("", arguments), dead
}

func reject(delivery rmq.IDeliveryContext) *amqp.Message {
	test.Check(delivery.Discard(soon(), nil))
	return delivery.Message()
}

func rejected(s *scene) {
	last := s.declared("-last", nil)
	dead := s.declared("-dead", test.To(last))
	queue := s.declared("", test.To(dead))
	s.publish(queue, test.Letter(amqp.MessageHeader{TTL: time.Minute}))
	receiver := s.consumer(queue)
	reject(receive(receiver))
	reader := s.consumer(dead)
	delivery := receive(reader)
	message := delivery.Message()
	test.Unchanged(message)
	test.Equal("ttl of the dead letter", message.Header.TTL, 0)
	once := test.Death{Queue: queue, Reason: "rejected", Count: 1, TTL: uint32(60_000)}
	test.History(message, once, once)
	reject(delivery)
	message = receive(s.consumer(last)).Message()
	test.Unchanged(message)
	test.History(message, once, test.Death{Queue: dead, Reason: "rejected", Count: 1}, once)
}

func expired(s *scene) {
	queue, dead := pair(s, map[string]any{"x-message-ttl": int64(100)})
	receiver := s.consumer(dead)
	begun := time.Now()
	s.publish(queue, test.Letter(amqp.MessageHeader{}))
	message := receive(receiver).Message()
	test.Equal("within a second", time.Since(begun) < time.Second, true)
	test.Unchanged(message)
	once := test.Death{Queue: queue, Reason: "expired", Count: 1}
	test.History(message, once, once)
}

func maxlen(s *scene) {
	queue, dead := pair(s, map[string]any{"x-max-length": int64(1)})
	s.publish(queue, test.Letter(amqp.MessageHeader{}), &amqp.Message{Value: "second"})
	message := receive(s.consumer(dead)).Message()
	test.Unchanged(message)
	once := test.Death{Queue: queue, Reason: "maxlen", Count: 1}
	test.History(message, once, once)
	test.Equal("left in the queue", s.count(queue), 1)
}

func deliveryLimit(*scene) {
	panic(test.Skipped(version + " sends modified with delivery-failed only together with undeliverable-here"))
}

func cycle(s *scene) {
	alone := s.declared("-alone", map[string]any{"x-message-ttl": int64(50), "x-dead-letter-exchange": ""})
	s.publish(alone, test.Letter(amqp.MessageHeader{}))
	test.Until("it still turns", func() bool { return s.count(alone) == 0 })
	queue := s.declared("-rejected", map[string]any{"x-dead-letter-exchange": ""})
	s.publish(queue, test.Letter(amqp.MessageHeader{}))
	receiver := s.consumer(queue)
	for range 2 {
		reject(receive(receiver))
	}
	twice := test.Death{Queue: queue, Reason: "rejected", Count: 2}
	test.History(receive(receiver).Message(), twice, twice)
}

func restart(s *scene) {
	quorumType := map[string]any{"x-queue-type": "quorum"}
	classic, quorum := s.declared("-classic", nil), s.declared("-quorum", quorumType)
	queue, dead := pair(s, quorumType)
	s.publish(queue, test.Letter(amqp.MessageHeader{Durable: true}))
	receiver := s.consumer(queue)
	reject(receive(receiver))
	test.Until("it is not dead-lettered", func() bool { return s.count(dead) == 1 })
	// What is confirmed now makes all before it safe, the rejection too.
	s.publish(classic, &amqp.Message{Header: &amqp.MessageHeader{Durable: true}, Value: "kept"},
		&amqp.Message{Header: &amqp.MessageHeader{}, Value: "lost"}) // durable without a header
	s.publish(quorum, &amqp.Message{Header: &amqp.MessageHeader{}, Value: "quorum"})
	test.RestartBroker()
	s.again()
	for _, kept := range []string{classic, quorum, dead} {
		test.Equal(kept, s.count(kept), 1)
	}
	test.Equal("in the classic queue", receive(s.consumer(classic)).Message().Value, any("kept"))
	test.Equal("in the quorum queue", receive(s.consumer(quorum)).Message().Value, any("quorum"))
	message := receive(s.consumer(dead)).Message()
	test.Unchanged(message)
	once := test.Death{Queue: queue, Reason: "rejected", Count: 1}
	test.History(message, once, once)
}
