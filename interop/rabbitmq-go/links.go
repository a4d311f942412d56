package main

import (
	"github.com/Azure/go-amqp"
	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
)

var links = []scenario{
	{"outcomes", outcomes}, {"refusals", refusals}, {"credit", credit}, {"drain", drain},
	{"presettled", presettled}, {"anonymous-terminus", anonymousTerminus},
	{"attach-refused", attachRefused}, {"deleted", deleted}, {"dynamic", dynamic}, {"selector", selector},
}

// outcomes: this client requeues with annotations by modified without delivery-failed, so that the
// delivery-count stays 0, and discards with annotations by modified with both flags.
func outcomes(s *scene) {
	dead := s.declared("-dead", nil)
	queue := s.declared("", map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	for _, name := range []string{"accepted", "released", "modified", "rejected", "undeliverable"} {
		s.publish(queue, &amqp.Message{Value: name})
	}
	consumer := must(s.connection.NewConsumer(soon(), queue, &rmq.ConsumerOptions{InitialCredits: 1}))
	comes := func(name string, first bool) rmq.IDeliveryContext {
		delivery := receive(consumer)
		header := delivery.Message().Header
		equal("message", []any{delivery.Message().Value, header.DeliveryCount, header.FirstAcquirer},
			[]any{name, uint32(0), first})
		return delivery
	}
	check(comes("accepted", true).Accept(soon()))
	check(comes("released", true).Requeue(soon()))
	check(comes("released", false).Accept(soon()))
	check(comes("modified", true).RequeueWithAnnotations(soon(), amqp.Annotations{"x-opt-note": "seen"}))
	delivery := comes("modified", false)
	equal("annotation", delivery.Message().Annotations["x-opt-note"], any("seen"))
	check(delivery.Accept(soon()))
	check(comes("rejected", true).Discard(soon(), &amqp.Error{Condition: "app:bad", Description: "unreadable"}))
	check(comes("undeliverable", true).DiscardWithAnnotations(soon(), amqp.Annotations{"x-opt-note": "bad"}))
	reader := s.consumer(dead)
	equal("dead letter", receive(reader).Message().Value, any("rejected"))
	message := receive(reader).Message()
	equal("dead letter", message.Value, any("undeliverable"))
	equal("annotation", message.Annotations["x-opt-note"], any("bad"))
	equal("left in the queue", s.count(queue), 0)
}

func refusals(s *scene) {
	exchange := s.prefix + "-exchange"
	must(s.management.DeclareExchange(soon(), &rmq.DirectExchangeSpecification{Name: exchange}))
	nowhere := s.publisher(&rmq.ExchangeAddress{Exchange: exchange, Key: "nowhere"})
	equal("outcome", outcome(nowhere, &amqp.Message{Value: "x"}), rmq.DeliveryState(&rmq.StateReleased{}))
	check(s.management.DeleteExchange(soon(), exchange))
	queue := s.prefix
	s.management.DeleteQueue(soon(), queue)
	must(s.management.DeclareQueue(soon(), &rmq.ClassicQueueSpecification{
		Name: queue, MaxLength: 1, OverflowStrategy: &rmq.RejectPublishOverflowStrategy{},
	}))
	s.queues = append(s.queues, queue)
	publisher := s.publisher(&rmq.QueueAddress{Queue: queue})
	equal("outcome", outcome(publisher, &amqp.Message{Value: "x"}), rmq.DeliveryState(&rmq.StateAccepted{}))
	rejected, ok := outcome(publisher, &amqp.Message{Value: "x"}).(*rmq.StateRejected)
	equal("rejected", ok, true)
	equal("condition", string(rejected.Error.Condition), "amqp:resource-limit-exceeded")
	equal("info", rejected.Error.Info, map[string]any{"queue": queue, "reason": "maxlen"})
}

// credit: the client gives credit back as messages are settled; it has no way to give none.
func credit(s *scene) {
	queue := s.declared("", nil)
	for n := range 5 {
		s.publish(queue, &amqp.Message{Value: int64(n)})
	}
	consumer := must(s.connection.NewConsumer(soon(), queue, &rmq.ConsumerOptions{InitialCredits: 2}))
	first := []rmq.IDeliveryContext{receive(consumer), receive(consumer)}
	nothing(consumer)
	for _, delivery := range first {
		check(delivery.Accept(soon()))
	}
	for n := range 3 {
		delivery := receive(consumer)
		equal("body", delivery.Message().Value, any(int64(n+2)))
		check(delivery.Accept(soon()))
	}
}

func drain(*scene) {
	panic(skipped(version + " has no drain: pausing a consumer is not exported"))
}

func presettled(s *scene) {
	queue := s.declared("", nil)
	s.publish(queue, &amqp.Message{Value: "settled"})
	consumer := must(s.connection.NewConsumer(soon(), queue, &rmq.ConsumerOptions{SettleStrategy: rmq.PreSettled}))
	equal("body", receive(consumer).Message().Value, any("settled"))
	check(consumer.Close(soon()))
	equal("left in the queue", s.count(queue), 0)
}

// anonymousTerminus: that a message without `to` is refused is this client's own doing.
func anonymousTerminus(s *scene) {
	one, two, bound := s.declared("-one", nil), s.declared("-two", nil), s.declared("-bound", nil)
	exchange := s.prefix + "-exchange"
	must(s.management.DeclareExchange(soon(), &rmq.FanOutExchangeSpecification{Name: exchange}))
	must(s.management.Bind(soon(), &rmq.ExchangeToQueueBindingSpecification{
		SourceExchange: exchange, DestinationQueue: bound,
	}))
	publisher := s.publisher(nil)
	for _, target := range []rmq.ITargetAddress{
		&rmq.QueueAddress{Queue: one}, &rmq.QueueAddress{Queue: two}, &rmq.ExchangeAddress{Exchange: exchange},
	} {
		message := must(rmq.NewMessageWithAddress([]byte("x"), target))
		equal("outcome", outcome(publisher, message), rmq.DeliveryState(&rmq.StateAccepted{}))
	}
	for _, queue := range []string{one, two, bound} {
		equal(queue, s.count(queue), 1)
	}
	check(s.management.DeleteExchange(soon(), exchange))
}

// attachRefused: addresses are made by the client, and exclusive consumers unknown to it.
func attachRefused(s *scene) {
	missing := s.prefix + "-missing"
	_, err := s.connection.NewConsumer(soon(), missing, nil)
	equal("consumer", condition(err), "amqp:not-found")
	_, err = s.connection.NewPublisher(soon(), &rmq.QueueAddress{Queue: missing}, nil)
	equal("publisher", condition(err), "amqp:not-found")
	queue := s.declared("", nil)
	s.publish(queue, &amqp.Message{Value: "the session lives"})
	equal("body", receive(s.consumer(queue)).Message().Value, any("the session lives"))
}

func deleted(s *scene) {
	queue := s.declared("", nil)
	consumer := s.consumer(queue)
	check(s.management.DeleteQueue(soon(), queue))
	_, err := consumer.Receive(soon())
	equal("condition", condition(err), "amqp:resource-deleted")
}

func dynamic(*scene) {
	panic(skipped(version + " makes dynamic sources for direct reply-to only, and for RabbitMQ 4.2 or later"))
}

func selector(*scene) {
	panic(skipped(version + " gives filters to consumers of streams only"))
}
