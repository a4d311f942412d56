package main

import (
	"context"

	"coroner/interop/test"

	"github.com/Azure/go-amqp"
)

var deaths = append(test.Deaths[*scene](), test.Scenario[*scene]{Name: "delivery-limit", Run: deliveryLimit})

// inbox is a receiver that rejects.
type inbox struct{ *amqp.Receiver }

// Open begins to consume from a queue.
func (s *scene) Open(queue string) test.Inbox {
	return inbox{s.receiver(queue, nil)}
}

// Next waits for a message.
func (i inbox) Next() (*amqp.Message, func()) {
	message := receive(i.Receiver)
	return message, func() { test.Check(i.RejectMessage(context.Background(), message, nil)) }
}

func deliveryLimit(s *scene) {
	queue, dead := test.Pair(s, map[string]any{"x-queue-type": "quorum", "x-delivery-limit": int64(1)})
	s.Publish(queue, test.Letter(amqp.MessageHeader{}))
	receiver := s.receiver(queue, nil)
	for count := range uint32(2) {
		message := receive(receiver)
		test.Equal("delivery-count", message.Header.DeliveryCount, count)
		options := &amqp.ModifyMessageOptions{DeliveryFailed: true}
		test.Check(receiver.ModifyMessage(context.Background(), message, options))
	}
	message := test.Read(s, dead)
	test.Unchanged(message)
	once := test.Death{Queue: queue, Reason: "delivery_limit", Count: 1}
	test.History(message, once, once)
}
