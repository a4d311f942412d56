package main

import (
	"context"
	"time"

	"coroner/interop/test"

	"github.com/Azure/go-amqp"
)

// How late a message may come, and how early: instants have milliseconds.
const (
	latest   = 100 * time.Millisecond
	earliest = -2 * time.Millisecond
)

var later = []test.Scenario[*scene]{{Name: "later", Run: comesLater}}

// comesLater gives a message back and names the instant at which it is to come again, as a timestamp and as
// milliseconds.
func comesLater(s *scene) {
	ctx := context.Background()
	queue := s.Queue("", nil)
	s.Publish(queue, &amqp.Message{Header: &amqp.MessageHeader{Durable: true}, Value: "busy"})
	receiver := s.receiver(queue, nil)
	message := receive(receiver)
	for _, named := range []func(time.Time) any{
		func(at time.Time) any { return at },
		func(at time.Time) any { return at.UnixMilli() },
	} {
		due := time.Now().Add(3 * time.Second)
		test.Check(receiver.ModifyMessage(ctx, message, &amqp.ModifyMessageOptions{
			Annotations: amqp.Annotations{"x-opt-delivery-time": named(due)},
		}))
		message = receive(receiver)
		late := time.Since(due)
		test.Equal("it comes in time, not "+late.String(), late > earliest && late < latest, true)
		_, stays := message.Annotations["x-opt-delivery-time"]
		test.Equal("the annotation stays", stays, true)
	}
	test.Check(receiver.AcceptMessage(ctx, message))
}
