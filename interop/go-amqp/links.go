package main

import (
	"context"

	"github.com/Azure/go-amqp"
)

var links = []scenario{
	{"outcomes", outcomes}, {"refusals", refusals}, {"credit", credit}, {"drain", drain},
	{"presettled", presettled}, {"anonymous-terminus", anonymousTerminus},
	{"attach-refused", attachRefused}, {"deleted", deleted}, {"dynamic", dynamic}, {"selector", selector},
}

func numbered(count int) (messages []*amqp.Message) {
	for n := range count {
		messages = append(messages, &amqp.Message{Value: int64(n)})
	}
	return messages
}

func outcomes(s *scene) {
	ctx := context.Background()
	dead := s.queue("-dead", nil)
	queue := s.queue("", map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	for _, name := range []string{"accepted", "released", "modified", "rejected", "undeliverable"} {
		s.publish(queue, &amqp.Message{Value: name})
	}
	receiver := s.receiver(queue, &amqp.ReceiverOptions{Credit: -1})
	comes := func(name string, count uint32, first bool) *amqp.Message {
		s.count(queue) // the outcome before this has arrived
		check(receiver.IssueCredit(1))
		message := receive(receiver)
		header := message.Header
		equal("message", []any{message.Value, header.DeliveryCount, header.FirstAcquirer}, []any{name, count, first})
		return message
	}
	accept(receiver, comes("accepted", 0, true))
	check(receiver.ReleaseMessage(ctx, comes("released", 0, true)))
	accept(receiver, comes("released", 0, false))
	check(receiver.ModifyMessage(ctx, comes("modified", 0, true), &amqp.ModifyMessageOptions{
		DeliveryFailed: true, Annotations: amqp.Annotations{"x-opt-note": "seen"},
	}))
	message := comes("modified", 1, false)
	equal("annotation", message.Annotations["x-opt-note"], any("seen"))
	accept(receiver, message)
	check(receiver.RejectMessage(ctx, comes("rejected", 0, true),
		&amqp.Error{Condition: "app:bad", Description: "cannot be read"}))
	check(receiver.ModifyMessage(ctx, comes("undeliverable", 0, true),
		&amqp.ModifyMessageOptions{UndeliverableHere: true}))
	reader := s.receiver(dead, nil)
	equal("dead letters", []any{receive(reader).Value, receive(reader).Value}, []any{"rejected", "undeliverable"})
	equal("left in the queue", s.count(queue), 0)
}

func refusals(s *scene) {
	exchange := s.prefix + "-exchange"
	s.management.ask("PUT", "/exchanges/"+exchange, map[string]any{"type": "direct"}, 204)
	nowhere := must(s.sender(s.session, "/exchanges/"+exchange+"/nowhere", nil))
	equal("outcome", outcome(nowhere, &amqp.Message{Value: "x"}), amqp.DeliveryState(&amqp.StateReleased{}))
	s.management.ask("DELETE", "/exchanges/"+exchange, nil, 204)
	queue := s.queue("", map[string]any{"x-max-length": uint64(1), "x-overflow": "reject-publish"})
	sender := must(s.sender(s.session, "/queues/"+queue, nil))
	equal("outcome", outcome(sender, &amqp.Message{Value: "x"}), amqp.DeliveryState(&amqp.StateAccepted{}))
	rejected, ok := outcome(sender, &amqp.Message{Value: "x"}).(*amqp.StateRejected)
	equal("rejected", ok, true)
	equal("condition", string(rejected.Error.Condition), "amqp:resource-limit-exceeded")
	equal("info", rejected.Error.Info, map[string]any{"queue": queue, "reason": "maxlen"})
}

func credit(s *scene) {
	queue := s.queue("", nil)
	s.publish(queue, numbered(5)...)
	receiver := s.receiver(queue, &amqp.ReceiverOptions{Credit: -1})
	nothing(receiver)
	check(receiver.IssueCredit(2))
	first := []*amqp.Message{receive(receiver), receive(receiver)}
	nothing(receiver)
	for _, message := range first {
		accept(receiver, message)
	}
	check(receiver.IssueCredit(3))
	for n := range 3 {
		message := receive(receiver)
		equal("body", message.Value, any(int64(n+2)))
		accept(receiver, message)
	}
	s.publish(queue, &amqp.Message{Value: int64(5)})
	nothing(receiver)
}

func drain(s *scene) {
	queue := s.queue("", nil)
	s.publish(queue, numbered(3)...)
	receiver := s.receiver(queue, &amqp.ReceiverOptions{Credit: -1})
	check(receiver.IssueCredit(10))
	// A drain takes credit back that is not on its way yet: wait for the first message.
	equal("body", receive(receiver).Value, any(int64(0)))
	ctx, cancel := soon()
	defer cancel()
	check(receiver.DrainCredit(ctx, nil))
	for n := range 2 {
		equal("body", receive(receiver).Value, any(int64(n+1)))
	}
	s.publish(queue, &amqp.Message{Value: "late"})
	nothing(receiver)
}

func presettled(s *scene) {
	queue := s.queue("", nil)
	sender := must(s.sender(s.session, "/queues/"+queue,
		&amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeSettled.Ptr()}))
	check(sender.Send(context.Background(), &amqp.Message{Value: "settled"}, nil))
	until("it does not arrive", func() bool { return s.count(queue) == 1 })
	receiver := s.receiver(queue, &amqp.ReceiverOptions{
		Credit: 10, RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
	})
	equal("body", receive(receiver).Value, any("settled"))
	closeLink(receiver)
	equal("left in the queue", s.count(queue), 0)
}

func anonymousTerminus(s *scene) {
	one, two, bound := s.queue("-one", nil), s.queue("-two", nil), s.queue("-bound", nil)
	exchange := s.prefix + "-exchange"
	s.management.ask("PUT", "/exchanges/"+exchange, map[string]any{"type": "fanout"}, 204)
	s.management.ask("POST", "/bindings", map[string]any{
		"source": exchange, "destination_queue": bound, "binding_key": "", "arguments": map[string]any{},
	}, 204)
	sender := must(s.sender(s.session, "", nil))
	for _, to := range []string{"/queues/" + one, "/queues/" + two, "/exchanges/" + exchange} {
		message := &amqp.Message{Properties: &amqp.MessageProperties{To: &to}, Value: to}
		equal("outcome", outcome(sender, message), amqp.DeliveryState(&amqp.StateAccepted{}))
	}
	for _, queue := range []string{one, two, bound} {
		equal(queue, s.count(queue), 1)
	}
	_, rejected := outcome(sender, &amqp.Message{Value: "to nobody"}).(*amqp.StateRejected)
	equal("rejected", rejected, true)
	s.management.ask("DELETE", "/exchanges/"+exchange, nil, 204)
}

func attachRefused(s *scene) {
	refused := func(source, expected string) {
		_, err := s.attach(s.session, source, nil)
		equal(source, condition(err), expected)
	}
	missing := "/queues/" + s.prefix + "-missing"
	refused(missing, "amqp:not-found")
	_, err := s.sender(s.session, missing, nil)
	equal("sender", condition(err), "amqp:not-found")
	refused("/nonsense/x", "amqp:invalid-field")
	queue := s.queue("", nil)
	alone := s.receiver(queue, &amqp.ReceiverOptions{Credit: 1, Properties: map[string]any{"exclusive": true}})
	refused("/queues/"+queue, "amqp:resource-locked")
	closeLink(alone)
	s.publish(queue, &amqp.Message{Value: "the session lives"})
	equal("body", receive(s.receiver(queue, nil)).Value, any("the session lives"))
}

func deleted(s *scene) {
	queue := s.queue("", nil)
	receiver := s.receiver(queue, nil)
	s.management.ask("DELETE", "/queues/"+queue, nil, 200)
	ctx, cancel := soon()
	defer cancel()
	_, err := receiver.Receive(ctx, nil)
	equal("condition", condition(err), "amqp:resource-deleted")
}

func dynamic(s *scene) {
	receiver := must(s.attach(s.session, "", &amqp.ReceiverOptions{Credit: 10, DynamicAddress: true}))
	address := receiver.Address()
	other := s.begin(s.connect(amqp.ConnOptions{}))
	sender := must(s.sender(other, address, nil))
	outcome(sender, &amqp.Message{Value: "answer"})
	equal("body", receive(receiver).Value, any("answer"))
	closeLink(sender)
	closeLink(receiver)
	_, err := s.sender(other, address, nil)
	equal("condition", condition(err), "amqp:not-found")
}

func selector(s *scene) {
	queue := s.queue("", nil)
	for n, colour := range []string{"red", "blue", "red", "green", "red", "blue"} {
		s.publish(queue, &amqp.Message{
			Properties:            &amqp.MessageProperties{MessageID: uint64(n)},
			ApplicationProperties: map[string]any{"colour": colour}, Value: colour,
		})
	}
	red := s.receiver(queue, &amqp.ReceiverOptions{
		Credit: 10, Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("colour = 'red'")},
	})
	for _, id := range []uint64{0, 2, 4} {
		message := receive(red)
		equal("message-id", message.Properties.MessageID, any(id))
		accept(red, message)
	}
	nothing(red)
	rest := s.receiver(queue, nil)
	for _, colour := range []string{"blue", "green", "blue"} {
		equal("the rest", receive(rest).Value, any(colour))
	}
}
