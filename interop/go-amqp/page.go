package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"coroner/interop/test"

	"github.com/Azure/go-amqp"
)

var pages = []test.Scenario[*scene]{
	{Name: "page", Run: page},
}

// page runs the snippets of docs/clients/go-amqp.md.
func page(s *scene) {
	check := test.Check
	dead := s.Queue("-dead", nil)
	queue := s.Queue("", nil)
	s.management.ask("DELETE", "/queues/"+queue, nil)
	management := s.management
	url := fmt.Sprintf("amqp://%s:%d", s.Host, s.Amqp)

	ctx := context.Background()
	conn, err := amqp.Dial(ctx, url, &amqp.ConnOptions{ // "amqp://localhost:5672"
		SASLType: amqp.SASLTypePlain("guest", "guest"), // HostName: "vhost:NAME" for another vhost
	})
	check(err)
	session, err := conn.NewSession(ctx, nil)
	check(err)
	defer conn.Close()

	management.ask("PUT", "/queues/"+dead, map[string]any{}, 200, 201)
	management.ask("PUT", "/queues/"+queue, map[string]any{"arguments": map[string]any{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead,
	}}, 200, 201)

	ctx, cancel := context.WithTimeout(ctx, test.Timeout)
	defer cancel()
	sender, err := session.NewSender(ctx, "/queues/"+queue, nil)
	check(err)
	err = sender.Send(ctx, amqp.NewMessage([]byte("order")), nil) // nil: accepted
	check(err)

	receiver, err := session.NewReceiver(ctx, "/queues/"+queue, &amqp.ReceiverOptions{Credit: 10})
	check(err)
	message, err := receiver.Receive(ctx, nil)
	check(err)
	err = receiver.RejectMessage(ctx, message, &amqp.Error{Condition: "app:bad"})
	check(err)
	test.Equal("body", string(message.GetData()), "order")

	var history []string
	deadLetters, err := session.NewReceiver(ctx, "/queues/"+dead, &amqp.ReceiverOptions{Credit: 10})
	check(err)
	message, err = deadLetters.Receive(ctx, nil)
	check(err)
	for _, death := range message.Annotations["x-opt-deaths"].([]map[any]any) {
		history = append(history, fmt.Sprint(
			death["queue"], " ", death["reason"], " ", death["count"], " ", death["first-time"].(time.Time)))
	}
	err = deadLetters.AcceptMessage(ctx, message)
	check(err)
	test.Equal("deaths", len(history), 1)
	if !strings.HasPrefix(history[0], queue+" rejected 1 20") {
		panic(fmt.Errorf("history: %s", history[0]))
	}
}
