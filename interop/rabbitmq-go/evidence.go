package main

import (
	"coroner/interop/test"

	"github.com/Azure/go-amqp"
)

var evidence = []test.Scenario[*scene]{{Name: "evidence", Run: whoAndWhy}}

// whoAndWhy discards with an error, then with the annotations, and reads both after a restart. The client
// sets no properties of links: what it gets is the condition and the description.
func whoAndWhy(s *scene) {
	said := test.Said()
	again := test.Blame{Condition: "app:again", Description: "once more"}
	last := s.Queue("-last", nil)
	dead := s.Queue("-dead", test.To(last))
	queue := s.Queue("", test.To(dead))
	durable := &amqp.Message{Header: &amqp.MessageHeader{Durable: true}, Value: "order"}
	s.Publish(queue, durable)
	test.Check(receive(s.consumer(queue)).Discard(soon(), &amqp.Error{
		Condition: amqp.ErrCond(said.Condition), Description: said.Description, Info: said.Info,
	}))
	test.Until("it is not dead-lettered", func() bool { return s.Count(dead) == 1 })
	// What is confirmed now makes all before it safe, the rejection too.
	s.Publish(s.Queue("-safe", nil), durable)
	test.RestartBroker()
	s.Again()

	delivery := receive(s.consumer(dead))
	test.LastDeath(delivery.Message(), said)
	test.Check(delivery.DiscardWithAnnotations(soon(), amqp.Annotations{
		"x-opt-dead-letter-category": again.Condition, "x-opt-dead-letter-reason": again.Description,
	}))
	letter := receive(s.consumer(last)).Message()
	test.LastDeath(letter, again)
	once, before := test.Death{Queue: dead, Reason: "rejected", Count: 1}, test.Death{Queue: queue, Reason: "rejected", Count: 1}
	test.History(letter, before, once, before)
}
