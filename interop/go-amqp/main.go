// go-amqp (Go) against a broker: declare, publish, consume, reject, read the history.
//
//	go run . PORT
//
// Prints `ok SCENARIO` or `fail SCENARIO REASON` for each scenario.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

const (
	timeout = 10 * time.Second
	source  = "interop-go-amqp"
	dead    = "interop-go-amqp-dead"
)

type state struct {
	port     string
	client   *amqp.Conn
	session  *amqp.Session
	receiver *amqp.Receiver
}

func main() {
	s := &state{port: os.Args[1]}
	for _, scenario := range []struct {
		name string
		run  func(context.Context, *state) error
	}{
		{"connect", connect},
		{"declare", declare},
		{"publish", publish},
		{"consume", consume},
		{"reject", reject},
		{"history", history},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		err := scenario.run(ctx, s)
		cancel()
		if err != nil {
			fmt.Println("fail", scenario.name, strings.ReplaceAll(err.Error(), "\n", " "))
			os.Exit(1)
		}
		fmt.Println("ok", scenario.name)
	}
}

func connect(ctx context.Context, s *state) (err error) {
	s.client, err = amqp.Dial(ctx, "amqp://127.0.0.1:"+s.port, &amqp.ConnOptions{
		SASLType: amqp.SASLTypePlain("guest", "guest"),
	})
	if err != nil {
		return err
	}
	s.session, err = s.client.NewSession(ctx, nil)
	return err
}

// management is the link pair of the node /management.
type management struct {
	sender   *amqp.Sender
	receiver *amqp.Receiver
}

func openManagement(ctx context.Context, session *amqp.Session) (*management, error) {
	paired := map[string]any{"paired": true}
	sender, err := session.NewSender(ctx, "/management", &amqp.SenderOptions{
		Name: "management", SourceAddress: "me", Properties: paired,
		SettlementMode: amqp.SenderSettleModeSettled.Ptr(),
	})
	if err != nil {
		return nil, err
	}
	receiver, err := session.NewReceiver(ctx, "/management", &amqp.ReceiverOptions{
		Name: "management", TargetAddress: "me", Properties: paired, Credit: 8,
		RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
	})
	// go-amqp grants the credit from another goroutine, and an answer needs it to be there.
	time.Sleep(100 * time.Millisecond)
	return &management{sender, receiver}, err
}

func (m *management) put(ctx context.Context, path string, body map[string]any) (map[string]any, error) {
	subject, replyTo := "PUT", "$me"
	request := &amqp.Message{
		Properties: &amqp.MessageProperties{
			MessageID: "request", Subject: &subject, To: &path, ReplyTo: &replyTo,
		},
		Value: body,
	}
	options := &amqp.SendOptions{Settled: true}
	if err := m.sender.Send(ctx, request, options); err != nil {
		return nil, err
	}
	answer, err := m.receiver.Receive(ctx, nil)
	if err != nil {
		return nil, err
	}
	if code := *answer.Properties.Subject; code != "201" && code != "200" {
		return nil, fmt.Errorf("%s: %s %v", path, code, answer.Value)
	}
	return answer.Value.(map[string]any), nil
}

func declare(ctx context.Context, s *state) error {
	m, err := openManagement(ctx, s.session)
	if err != nil {
		return err
	}
	target := map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
	for _, queue := range []struct {
		name      string
		arguments map[string]any
	}{{dead, map[string]any{}}, {source, target}} {
		answer, err := m.put(ctx, "/queues/"+queue.name, map[string]any{"arguments": queue.arguments})
		if err != nil {
			return err
		}
		if err := equal("name", answer["name"], any(queue.name)); err != nil {
			return err
		}
	}
	return nil
}

func publish(ctx context.Context, s *state) error {
	sender, err := s.session.NewSender(ctx, "/queues/"+source, nil)
	if err != nil {
		return err
	}
	for _, text := range []string{"good", "bad"} {
		subject := "greeting"
		message := &amqp.Message{
			Header:                &amqp.MessageHeader{Durable: true, TTL: time.Minute},
			Properties:            &amqp.MessageProperties{MessageID: text, Subject: &subject},
			ApplicationProperties: map[string]any{"n": int64(7)},
			Value:                 map[string]any{"text": text},
		}
		if err := sender.Send(ctx, message, nil); err != nil {
			return err
		}
	}
	return sender.Close(ctx)
}

func consume(ctx context.Context, s *state) (err error) {
	s.receiver, err = s.session.NewReceiver(ctx, "/queues/"+source, &amqp.ReceiverOptions{Credit: 2})
	if err != nil {
		return err
	}
	message, err := s.receiver.Receive(ctx, nil)
	if err != nil {
		return err
	}
	return errors.Join(
		equal("message-id", message.Properties.MessageID, any("good")),
		equal("application-properties", message.ApplicationProperties, map[string]any{"n": int64(7)}),
		equal("body", message.Value, any(map[string]any{"text": "good"})),
		equal("durable", message.Header.Durable, true),
		s.receiver.AcceptMessage(ctx, message),
	)
}

func reject(ctx context.Context, s *state) error {
	message, err := s.receiver.Receive(ctx, nil)
	if err != nil {
		return err
	}
	cause := &amqp.Error{Condition: "app:poison", Description: "cannot be read"}
	return errors.Join(
		equal("message-id", message.Properties.MessageID, any("bad")),
		s.receiver.RejectMessage(ctx, message, cause),
		s.receiver.Close(ctx),
	)
}

func history(ctx context.Context, s *state) error {
	receiver, err := s.session.NewReceiver(ctx, "/queues/"+dead, nil)
	if err != nil {
		return err
	}
	message, err := receiver.Receive(ctx, nil)
	if err != nil {
		return err
	}
	if err := receiver.AcceptMessage(ctx, message); err != nil {
		return err
	}
	wrong := []error{
		equal("message-id", message.Properties.MessageID, any("bad")),
		equal("body", message.Value, any(map[string]any{"text": "bad"})),
		equal("ttl of the dead letter", message.Header.TTL, time.Duration(0)),
	}
	for _, when := range []string{"first", "last"} {
		for what, value := range map[string]string{"queue": source, "reason": "rejected", "exchange": ""} {
			name := "x-" + when + "-death-" + what
			wrong = append(wrong, equal(name, message.Annotations[name], any(value)))
		}
	}
	wrong = append(wrong, deaths(message.Annotations["x-opt-deaths"]))
	return errors.Join(append(wrong, s.client.Close())...)
}

// deaths checks the history field by field, with its types; go-amqp gives symbols as strings.
func deaths(annotation any) error {
	entries, ok := annotation.([]map[any]any)
	if !ok || len(entries) != 1 {
		return fmt.Errorf("x-opt-deaths is %T %v", annotation, annotation)
	}
	entry := map[string]any{}
	for key, value := range entries[0] {
		entry[fmt.Sprint(key)] = value
	}
	first, last := entry["first-time"], entry["last-time"]
	delete(entry, "first-time")
	delete(entry, "last-time")
	at, ok := last.(time.Time)
	if age := time.Since(at); !ok || age < -5*time.Second || age > time.Minute {
		return fmt.Errorf("last-time is %v", last)
	}
	return errors.Join(
		equal("first-time", first, last),
		equal("entry", entry, map[string]any{
			"queue": source, "reason": "rejected", "count": uint64(1), "exchange": "",
			"routing-keys": []string{source}, "ttl": uint32(60_000),
		}),
	)
}

func equal[T any](what string, observed, expected T) error {
	if !reflect.DeepEqual(observed, expected) {
		return fmt.Errorf("%s: %#v instead of %#v", what, observed, expected)
	}
	return nil
}
