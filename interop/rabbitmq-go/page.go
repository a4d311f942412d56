package main

import (
	"context"
	"fmt"

	"coroner/interop/test"
)

import rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"

var pages = []test.Scenario[*scene]{
	{Name: "page", Run: page},
}

// page runs the snippets of docs/clients/rabbitmq-go.md.
func page(s *scene) {
	check := test.Check
	queue, dead := s.prefix, s.prefix+"-dead"
	s.queues = append(s.queues, queue, dead)
	url := fmt.Sprintf("amqp://guest:guest@%s:%d/", s.Host, s.Amqp)

	ctx := context.Background()
	env := rmq.NewEnvironment(url, nil) // "amqp://guest:guest@localhost:5672/", .../NAME: another vhost
	connection, err := env.NewConnection(ctx)
	check(err)
	defer env.CloseConnections(ctx)

	management := connection.Management()
	_, err = management.DeclareQueue(ctx, &rmq.QuorumQueueSpecification{Name: dead})
	check(err)
	_, err = management.DeclareQueue(ctx, &rmq.DefaultQueueSpecification{
		Name: queue, Arguments: map[string]any{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead,
		},
	})
	check(err)

	ctx, cancel := context.WithTimeout(ctx, test.Timeout)
	defer cancel()
	publisher, err := connection.NewPublisher(ctx, &rmq.QueueAddress{Queue: queue}, nil)
	check(err)
	result, err := publisher.Publish(ctx, rmq.NewMessage([]byte("order")))
	check(err)
	_, accepted := result.Outcome.(*rmq.StateAccepted) // or *rmq.StateReleased, *rmq.StateRejected

	consumer, err := connection.NewConsumer(ctx, queue, nil)
	check(err)
	delivery, err := consumer.Receive(ctx)
	check(err)
	err = delivery.Discard(ctx, nil) // or DiscardWithAnnotations, Requeue, Accept
	check(err)

	test.Equal("accepted", accepted, true)
	var history []string
	deadLetters, err := connection.NewConsumer(ctx, dead, nil)
	check(err)
	delivery, err = deadLetters.Receive(ctx)
	check(err)
	for _, death := range delivery.Message().Annotations["x-opt-deaths"].([]map[any]any) {
		history = append(history, fmt.Sprint(death["queue"], " ", death["reason"], " ", death["count"]))
	}
	err = delivery.Accept(ctx)
	check(err)
	test.Equal("history", history, []string{queue + " rejected 1"})
}
