package main

import (
	"coroner/interop/test"

	"github.com/Azure/go-amqp"
	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
)

var links = []test.Scenario[*scene]{
	{Name: "outcomes", Run: outcomes},
	{Name: "refusals", Run: refusals},
	{Name: "credit", Run: credit},
	{Name: "drain", Run: drain},
	{Name: "presettled", Run: presettled},
	{Name: "anonymous-terminus", Run: anonymousTerminus},
	{Name: "attach-refused", Run: attachRefused},
	{Name: "deleted", Run: deleted},
	{Name: "dynamic", Run: dynamic},
	{Name: "selector", Run: selector},
}

// outcomes: this client requeues with annotations by modified without delivery-failed, so that the
// delivery-count stays 0, and discards with annotations by modified with both flags.
func outcomes(s *scene) {
	dead := s.Queue("-dead", nil)
	queue := s.Queue("", map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	for _, name := range []string{"accepted", "released", "modified", "rejected", "undeliverable"} {
		s.Publish(queue, &amqp.Message{Value: name})
	}
	consumer := test.Must(s.connection.NewConsumer(soon(), queue, &rmq.ConsumerOptions{InitialCredits: 1}))
	comes := func(name string, first bool) rmq.IDeliveryContext {
		delivery := receive(consumer)
		header := delivery.Message().Header
		test.Equal("message", []any{delivery.Message().Value, header.DeliveryCount, header.FirstAcquirer},
			[]any{name, uint32(0), first})
		return delivery
	}
	test.Check(comes("accepted", true).Accept(soon()))
	test.Check(comes("released", true).Requeue(soon()))
	test.Check(comes("released", false).Accept(soon()))
	test.Check(comes("modified", true).RequeueWithAnnotations(soon(), amqp.Annotations{"x-opt-note": "seen"}))
	delivery := comes("modified", false)
	test.Equal("annotation", delivery.Message().Annotations["x-opt-note"], any("seen"))
	test.Check(delivery.Accept(soon()))
	test.Check(comes("rejected", true).Discard(soon(), &amqp.Error{Condition: "app:bad", Description: "unreadable"}))
	test.Check(comes("undeliverable", true).DiscardWithAnnotations(soon(), amqp.Annotations{"x-opt-note": "bad"}))
	reader := s.consumer(dead)
	test.Equal("dead letter", receive(reader).Message().Value, any("rejected"))
	message := receive(reader).Message()
	test.Equal("dead letter", message.Value, any("undeliverable"))
	test.Equal("annotation", message.Annotations["x-opt-note"], any("bad"))
	test.Equal("left in the queue", s.Count(queue), 0)
}

func refusals(s *scene) {
	exchange := s.prefix + "-exchange"
	test.Must(s.management.DeclareExchange(soon(), &rmq.DirectExchangeSpecification{Name: exchange}))
	nowhere := s.publisher(&rmq.ExchangeAddress{Exchange: exchange, Key: "nowhere"})
	test.Equal("outcome", outcome(nowhere, &amqp.Message{Value: "x"}), rmq.DeliveryState(&rmq.StateReleased{}))
	test.Check(s.management.DeleteExchange(soon(), exchange))
	queue := s.prefix
	s.management.DeleteQueue(soon(), queue)
	test.Must(s.management.DeclareQueue(soon(), &rmq.ClassicQueueSpecification{
		Name: queue, MaxLength: 1, OverflowStrategy: &rmq.RejectPublishOverflowStrategy{},
	}))
	s.queues = append(s.queues, queue)
	publisher := s.publisher(&rmq.QueueAddress{Queue: queue})
	test.Equal("outcome", outcome(publisher, &amqp.Message{Value: "x"}), rmq.DeliveryState(&rmq.StateAccepted{}))
	rejected, ok := outcome(publisher, &amqp.Message{Value: "x"}).(*rmq.StateRejected)
	test.Equal("rejected", ok, true)
	test.Equal("condition", string(rejected.Error.Condition), "amqp:resource-limit-exceeded")
	test.Equal("info", rejected.Error.Info, map[string]any{"queue": queue, "reason": "maxlen"})
}

// credit: the client gives credit back as messages are settled; it has no way to give none.
func credit(s *scene) {
	queue := s.Queue("", nil)
	for n := range 5 {
		s.Publish(queue, &amqp.Message{Value: int64(n)})
	}
	consumer := test.Must(s.connection.NewConsumer(soon(), queue, &rmq.ConsumerOptions{InitialCredits: 2}))
	first := []rmq.IDeliveryContext{receive(consumer), receive(consumer)}
	nothing(consumer)
	for _, delivery := range first {
		test.Check(delivery.Accept(soon()))
	}
	for n := range 3 {
		delivery := receive(consumer)
		test.Equal("body", delivery.Message().Value, any(int64(n+2)))
		test.Check(delivery.Accept(soon()))
	}
}

func drain(*scene) {
	panic(test.Skipped(version + " has no drain: pausing a consumer is not exported"))
}

func presettled(s *scene) {
	queue := s.Queue("", nil)
	s.Publish(queue, &amqp.Message{Value: "settled"})
	consumer := test.Must(s.connection.NewConsumer(soon(), queue, &rmq.ConsumerOptions{SettleStrategy: rmq.PreSettled}))
	test.Equal("body", receive(consumer).Message().Value, any("settled"))
	test.Check(consumer.Close(soon()))
	test.Equal("left in the queue", s.Count(queue), 0)
}

// anonymousTerminus: that a message without `to` is refused is this client's own doing.
func anonymousTerminus(s *scene) {
	one, two, bound := s.Queue("-one", nil), s.Queue("-two", nil), s.Queue("-bound", nil)
	exchange := s.prefix + "-exchange"
	test.Must(s.management.DeclareExchange(soon(), &rmq.FanOutExchangeSpecification{Name: exchange}))
	test.Must(s.management.Bind(soon(), &rmq.ExchangeToQueueBindingSpecification{
		SourceExchange: exchange, DestinationQueue: bound,
	}))
	publisher := s.publisher(nil)
	for _, target := range []rmq.ITargetAddress{
		&rmq.QueueAddress{Queue: one}, &rmq.QueueAddress{Queue: two}, &rmq.ExchangeAddress{Exchange: exchange},
	} {
		message := test.Must(rmq.NewMessageWithAddress([]byte("x"), target))
		test.Equal("outcome", outcome(publisher, message), rmq.DeliveryState(&rmq.StateAccepted{}))
	}
	for _, queue := range []string{one, two, bound} {
		test.Equal(queue, s.Count(queue), 1)
	}
	test.Check(s.management.DeleteExchange(soon(), exchange))
}

// attachRefused: addresses are made by the client, and exclusive consumers unknown to it.
func attachRefused(s *scene) {
	missing := s.prefix + "-missing"
	_, err := s.connection.NewConsumer(soon(), missing, nil)
	test.Equal("consumer", test.Condition(err), "amqp:not-found")
	_, err = s.connection.NewPublisher(soon(), &rmq.QueueAddress{Queue: missing}, nil)
	test.Equal("publisher", test.Condition(err), "amqp:not-found")
	queue := s.Queue("", nil)
	s.Publish(queue, &amqp.Message{Value: "the session lives"})
	test.Equal("body", receive(s.consumer(queue)).Message().Value, any("the session lives"))
}

func deleted(s *scene) {
	queue := s.Queue("", nil)
	consumer := s.consumer(queue)
	test.Check(s.management.DeleteQueue(soon(), queue))
	_, err := consumer.Receive(soon())
	test.Equal("condition", test.Condition(err), "amqp:resource-deleted")
}

func dynamic(*scene) {
	panic(test.Skipped(version + " makes dynamic sources for direct reply-to only, and for RabbitMQ 4.2 or later"))
}

func selector(*scene) {
	panic(test.Skipped(version + " gives filters to consumers of streams only"))
}
