package main

import (
	"coroner/interop/test"

	"github.com/Azure/go-amqp"
	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
)

var deaths = append(test.Deaths[*scene](), test.Scenario[*scene]{Name: "delivery-limit", Run: deliveryLimit})

// inbox is a consumer that rejects.
type inbox struct{ *rmq.Consumer }

// Open begins to consume from a queue.
func (s *scene) Open(queue string) test.Inbox {
	return inbox{s.consumer(queue)}
}

// Next waits for a message.
func (i inbox) Next() (*amqp.Message, func()) {
	delivery := receive(i.Consumer)
	return delivery.Message(), func() { test.Check(delivery.Discard(soon(), nil)) }
}

func deliveryLimit(*scene) {
	panic(test.Skipped(version + " sends modified with delivery-failed only together with undeliverable-here"))
}
