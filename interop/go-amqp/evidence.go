package main

import (
	"context"

	"coroner/interop/test"

	"github.com/Azure/go-amqp"
)

var evidence = []test.Scenario[*scene]{{Name: "evidence", Run: whoAndWhy}}

// full is a receiver that asks for all that is known of each death.
func (s *scene) full(queue, name string) *amqp.Receiver {
	return s.receiver(queue, &amqp.ReceiverOptions{
		Name: name, Credit: 10, Properties: map[string]any{"x-opt-death-evidence": "full"},
	})
}

// whoAndWhy rejects with all that go-amqp can say, and reads it after a restart and a second death.
func whoAndWhy(s *scene) {
	ctx, said := context.Background(), test.Said()
	again := test.Blame{Condition: "app:again", Description: "once more"}
	last := s.Queue("-last", nil)
	dead := s.Queue("-dead", test.To(last))
	queue := s.Queue("", test.To(dead))
	durable := &amqp.Message{Header: &amqp.MessageHeader{Durable: true}, Value: "order"}
	s.container = "first-container"
	s.Again()
	s.Publish(queue, durable)
	receiver := s.receiver(queue, &amqp.ReceiverOptions{Name: "first-consumer", Credit: 10})
	test.Check(receiver.RejectMessage(ctx, receive(receiver), &amqp.Error{
		Condition: amqp.ErrCond(said.Condition), Description: said.Description, Info: said.Info,
	}))
	test.Until("it is not dead-lettered", func() bool { return s.Count(dead) == 1 })
	// What is confirmed now makes all before it safe, the rejection too.
	s.Publish(s.Queue("-safe", nil), durable)
	test.RestartBroker()
	s.container = "second-container"
	s.Again()

	reader := s.full(dead, "second-consumer")
	letter := receive(reader)
	test.LastDeath(letter, said)
	test.By(letter.Annotations["x-opt-last-death-by"], "rejected", "first-container", "first-consumer", s.User)
	entries := test.Entries(letter)
	test.Equal("entries", len(entries), 1)
	test.Reason(entries[0], said)
	test.Check(reader.ModifyMessage(ctx, letter, &amqp.ModifyMessageOptions{
		UndeliverableHere: true, Annotations: amqp.Annotations{
			"x-opt-dead-letter-category": again.Condition, "x-opt-dead-letter-reason": again.Description,
		},
	}))
	letter = receive(s.full(last, "third-consumer"))
	test.LastDeath(letter, again)
	entries = test.Entries(letter)
	test.Equal("entries", len(entries), 2)
	test.Reason(entries[0], again)
	test.By(entries[0]["by"], "undeliverable-here", "second-container", "second-consumer", s.User)
	test.Reason(entries[1], said)
	test.By(entries[1]["by"], "rejected", "first-container", "first-consumer", s.User)
}
