package main

import (
	"context"

	"coroner/interop/test"

	"github.com/Azure/go-amqp"
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

func numbered(count int) (messages []*amqp.Message) {
	for n := range count {
		messages = append(messages, &amqp.Message{Value: int64(n)})
	}
	return messages
}

func outcomes(s *scene) {
	ctx := context.Background()
	dead := s.Queue("-dead", nil)
	queue := s.Queue("", map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	for _, name := range []string{"accepted", "released", "modified", "rejected", "undeliverable"} {
		s.Publish(queue, &amqp.Message{Value: name})
	}
	receiver := s.receiver(queue, &amqp.ReceiverOptions{Credit: -1})
	comes := func(name string, count uint32, first bool) *amqp.Message {
		s.Count(queue) // the outcome before this has arrived
		test.Check(receiver.IssueCredit(1))
		message := receive(receiver)
		header := message.Header
		test.Equal("message", []any{message.Value, header.DeliveryCount, header.FirstAcquirer}, []any{name, count, first})
		return message
	}
	accept(receiver, comes("accepted", 0, true))
	test.Check(receiver.ReleaseMessage(ctx, comes("released", 0, true)))
	accept(receiver, comes("released", 0, false))
	test.Check(receiver.ModifyMessage(ctx, comes("modified", 0, true), &amqp.ModifyMessageOptions{
		DeliveryFailed: true, Annotations: amqp.Annotations{"x-opt-note": "seen"},
	}))
	message := comes("modified", 1, false)
	test.Equal("annotation", message.Annotations["x-opt-note"], any("seen"))
	accept(receiver, message)
	test.Check(receiver.RejectMessage(ctx, comes("rejected", 0, true),
		&amqp.Error{Condition: "app:bad", Description: "cannot be read"}))
	test.Check(receiver.ModifyMessage(ctx, comes("undeliverable", 0, true),
		&amqp.ModifyMessageOptions{UndeliverableHere: true}))
	reader := s.receiver(dead, nil)
	test.Equal("dead letters", []any{receive(reader).Value, receive(reader).Value}, []any{"rejected", "undeliverable"})
	test.Equal("left in the queue", s.Count(queue), 0)
}

func refusals(s *scene) {
	exchange := s.prefix + "-exchange"
	s.management.ask("PUT", "/exchanges/"+exchange, map[string]any{"type": "direct"}, 204)
	nowhere := test.Must(s.sender(s.session, "/exchanges/"+exchange+"/nowhere", nil))
	test.Equal("outcome", outcome(nowhere, &amqp.Message{Value: "x"}), amqp.DeliveryState(&amqp.StateReleased{}))
	s.management.ask("DELETE", "/exchanges/"+exchange, nil, 204)
	queue := s.Queue("", map[string]any{"x-max-length": uint64(1), "x-overflow": "reject-publish"})
	sender := test.Must(s.sender(s.session, "/queues/"+queue, nil))
	test.Equal("outcome", outcome(sender, &amqp.Message{Value: "x"}), amqp.DeliveryState(&amqp.StateAccepted{}))
	rejected, ok := outcome(sender, &amqp.Message{Value: "x"}).(*amqp.StateRejected)
	test.Equal("rejected", ok, true)
	test.Equal("condition", string(rejected.Error.Condition), "amqp:resource-limit-exceeded")
	test.Equal("info", rejected.Error.Info, map[string]any{"queue": queue, "reason": "maxlen"})
}

func credit(s *scene) {
	queue := s.Queue("", nil)
	s.Publish(queue, numbered(5)...)
	receiver := s.receiver(queue, &amqp.ReceiverOptions{Credit: -1})
	nothing(receiver)
	test.Check(receiver.IssueCredit(2))
	first := []*amqp.Message{receive(receiver), receive(receiver)}
	nothing(receiver)
	for _, message := range first {
		accept(receiver, message)
	}
	test.Check(receiver.IssueCredit(3))
	for n := range 3 {
		message := receive(receiver)
		test.Equal("body", message.Value, any(int64(n+2)))
		accept(receiver, message)
	}
	s.Publish(queue, &amqp.Message{Value: int64(5)})
	nothing(receiver)
}

func drain(s *scene) {
	queue := s.Queue("", nil)
	s.Publish(queue, numbered(3)...)
	receiver := s.receiver(queue, &amqp.ReceiverOptions{Credit: -1})
	test.Check(receiver.IssueCredit(10))
	// A drain takes credit back that is not on its way yet: wait for the first message.
	test.Equal("body", receive(receiver).Value, any(int64(0)))
	ctx, cancel := soon()
	defer cancel()
	test.Check(receiver.DrainCredit(ctx, nil))
	for n := range 2 {
		test.Equal("body", receive(receiver).Value, any(int64(n+1)))
	}
	s.Publish(queue, &amqp.Message{Value: "late"})
	nothing(receiver)
}

func presettled(s *scene) {
	queue := s.Queue("", nil)
	sender := test.Must(s.sender(s.session, "/queues/"+queue,
		&amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeSettled.Ptr()}))
	test.Check(sender.Send(context.Background(), &amqp.Message{Value: "settled"}, nil))
	test.Until("it does not arrive", func() bool { return s.Count(queue) == 1 })
	receiver := s.receiver(queue, &amqp.ReceiverOptions{
		Credit: 10, RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
	})
	test.Equal("body", receive(receiver).Value, any("settled"))
	closeLink(receiver)
	test.Equal("left in the queue", s.Count(queue), 0)
}

func anonymousTerminus(s *scene) {
	one, two, bound := s.Queue("-one", nil), s.Queue("-two", nil), s.Queue("-bound", nil)
	exchange := s.prefix + "-exchange"
	s.management.ask("PUT", "/exchanges/"+exchange, map[string]any{"type": "fanout"}, 204)
	s.management.ask("POST", "/bindings", map[string]any{
		"source": exchange, "destination_queue": bound, "binding_key": "", "arguments": map[string]any{},
	}, 204)
	sender := test.Must(s.sender(s.session, "", nil))
	for _, to := range []string{"/queues/" + one, "/queues/" + two, "/exchanges/" + exchange} {
		message := &amqp.Message{Properties: &amqp.MessageProperties{To: &to}, Value: to}
		test.Equal("outcome", outcome(sender, message), amqp.DeliveryState(&amqp.StateAccepted{}))
	}
	for _, queue := range []string{one, two, bound} {
		test.Equal(queue, s.Count(queue), 1)
	}
	_, rejected := outcome(sender, &amqp.Message{Value: "to nobody"}).(*amqp.StateRejected)
	test.Equal("rejected", rejected, true)
	s.management.ask("DELETE", "/exchanges/"+exchange, nil, 204)
}

func attachRefused(s *scene) {
	refused := func(source, expected string) {
		_, err := s.attach(s.session, source, nil)
		test.Equal(source, test.Condition(err), expected)
	}
	missing := "/queues/" + s.prefix + "-missing"
	refused(missing, "amqp:not-found")
	_, err := s.sender(s.session, missing, nil)
	test.Equal("sender", test.Condition(err), "amqp:not-found")
	refused("/nonsense/x", "amqp:invalid-field")
	queue := s.Queue("", nil)
	alone := s.receiver(queue, &amqp.ReceiverOptions{Credit: 1, Properties: map[string]any{"exclusive": true}})
	refused("/queues/"+queue, "amqp:resource-locked")
	closeLink(alone)
	s.Publish(queue, &amqp.Message{Value: "the session lives"})
	test.Equal("body", receive(s.receiver(queue, nil)).Value, any("the session lives"))
}

func deleted(s *scene) {
	queue := s.Queue("", nil)
	receiver := s.receiver(queue, nil)
	s.management.ask("DELETE", "/queues/"+queue, nil, 200)
	ctx, cancel := soon()
	defer cancel()
	_, err := receiver.Receive(ctx, nil)
	test.Equal("condition", test.Condition(err), "amqp:resource-deleted")
}

func dynamic(s *scene) {
	receiver := test.Must(s.attach(s.session, "", &amqp.ReceiverOptions{Credit: 10, DynamicAddress: true}))
	address := receiver.Address()
	other := s.begin(s.connect(amqp.ConnOptions{}))
	sender := test.Must(s.sender(other, address, nil))
	outcome(sender, &amqp.Message{Value: "answer"})
	test.Equal("body", receive(receiver).Value, any("answer"))
	closeLink(sender)
	closeLink(receiver)
	_, err := s.sender(other, address, nil)
	test.Equal("condition", test.Condition(err), "amqp:not-found")
}

func selector(s *scene) {
	queue := s.Queue("", nil)
	for n, colour := range []string{"red", "blue", "red", "green", "red", "blue"} {
		s.Publish(queue, &amqp.Message{
			Properties:            &amqp.MessageProperties{MessageID: uint64(n)},
			ApplicationProperties: map[string]any{"colour": colour}, Value: colour,
		})
	}
	red := s.receiver(queue, &amqp.ReceiverOptions{
		Credit: 10, Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("colour = 'red'")},
	})
	for _, id := range []uint64{0, 2, 4} {
		message := receive(red)
		test.Equal("message-id", message.Properties.MessageID, any(id))
		accept(red, message)
	}
	nothing(red)
	rest := s.receiver(queue, nil)
	for _, colour := range []string{"blue", "green", "blue"} {
		test.Equal("the rest", receive(rest).Value, any(colour))
	}
}
