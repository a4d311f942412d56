package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"coroner/interop/test"

	"github.com/Azure/go-amqp"
)

// scene is one connection with its management pair, and the queues of one scenario.
type scene struct {
	test.Setting
	prefix      string
	session     *amqp.Session
	management  *management
	queues      []string
	connections []*amqp.Conn
	container   string // of the connections to come; the client's own choice if it is empty
}

func open(with test.Setting, name string) *scene {
	s := &scene{Setting: with, prefix: with.Prefix + name}
	s.Again()
	return s
}

// Again connects, anew after a restart.
func (s *scene) Again() {
	s.session = s.begin(s.connect(amqp.ConnOptions{ContainerID: s.container}))
	s.management = openManagement(s.session)
}

// Close deletes the queues of the scenario.
func (s *scene) Close() {
	for _, queue := range s.queues {
		s.management.ask("DELETE", "/queues/"+queue, nil)
	}
	for _, connection := range s.connections {
		connection.Close()
	}
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), test.Timeout)
}

func (s *scene) dial(url string, options amqp.ConnOptions) (*amqp.Conn, error) {
	ctx, cancel := soon()
	defer cancel()
	connection, err := amqp.Dial(ctx, url, &options)
	if err == nil {
		s.connections = append(s.connections, connection)
	}
	return connection, err
}

func (s *scene) connect(options amqp.ConnOptions) *amqp.Conn {
	if options.SASLType == nil {
		options.SASLType = amqp.SASLTypePlain(s.User, s.Password)
	}
	return test.Must(s.dial(fmt.Sprintf("amqp://%s:%d", s.Host, s.Amqp), options))
}

func (s *scene) begin(connection *amqp.Conn) *amqp.Session {
	ctx, cancel := soon()
	defer cancel()
	return test.Must(connection.NewSession(ctx, nil))
}

func (s *scene) Queue(suffix string, arguments map[string]any) string {
	name := s.prefix + suffix
	if arguments == nil {
		arguments = map[string]any{}
	}
	s.management.ask("DELETE", "/queues/"+name, nil)
	s.management.ask("PUT", "/queues/"+name, map[string]any{"arguments": arguments}, 201)
	s.queues = append(s.queues, name)
	return name
}

func (s *scene) Count(queue string) uint64 {
	answer := s.management.ask("GET", "/queues/"+queue, nil, 200)
	return answer.(map[string]any)["message_count"].(uint64)
}

func (s *scene) sender(session *amqp.Session, target string, options *amqp.SenderOptions) (*amqp.Sender, error) {
	ctx, cancel := soon()
	defer cancel()
	return session.NewSender(ctx, target, options)
}

func (s *scene) receiver(queue string, options *amqp.ReceiverOptions) *amqp.Receiver {
	return test.Must(s.attach(s.session, "/queues/"+queue, options))
}

func (s *scene) attach(session *amqp.Session, source string, options *amqp.ReceiverOptions) (*amqp.Receiver, error) {
	ctx, cancel := soon()
	defer cancel()
	if options == nil {
		options = &amqp.ReceiverOptions{Credit: 10}
	}
	return session.NewReceiver(ctx, source, options)
}

func (s *scene) Publish(queue string, messages ...*amqp.Message) {
	sender := test.Must(s.sender(s.session, "/queues/"+queue, nil))
	for _, message := range messages {
		test.Equal("outcome", outcome(sender, message), amqp.DeliveryState(&amqp.StateAccepted{}))
	}
	closeLink(sender)
}

func outcome(sender *amqp.Sender, message *amqp.Message) amqp.DeliveryState {
	ctx, cancel := soon()
	defer cancel()
	receipt := test.Must(sender.SendWithReceipt(ctx, message, nil))
	return test.Must(receipt.Wait(ctx))
}

func receive(receiver *amqp.Receiver) *amqp.Message {
	ctx, cancel := soon()
	defer cancel()
	return test.Must(receiver.Receive(ctx, nil))
}

// nothing fails if a message comes for the credit there is.
func nothing(receiver *amqp.Receiver) {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if message, err := receiver.Receive(ctx, nil); err == nil {
		panic(fmt.Errorf("unexpected message %v", message.Value))
	}
}

func accept(receiver *amqp.Receiver, message *amqp.Message) {
	test.Check(receiver.AcceptMessage(context.Background(), message))
}

type link interface {
	Close(context.Context) error
}

func closeLink(one link) {
	ctx, cancel := soon()
	defer cancel()
	test.Check(one.Close(ctx))
}

// management is the link pair of the node /management.
type management struct {
	sender   *amqp.Sender
	receiver *amqp.Receiver
}

func openManagement(session *amqp.Session) *management {
	ctx, cancel := soon()
	defer cancel()
	paired := map[string]any{"paired": true}
	sender := test.Must(session.NewSender(ctx, "/management", &amqp.SenderOptions{
		Name: "management", SourceAddress: "me", Properties: paired,
		SettlementMode: amqp.SenderSettleModeSettled.Ptr(),
	}))
	receiver := test.Must(session.NewReceiver(ctx, "/management", &amqp.ReceiverOptions{
		Name: "management", TargetAddress: "me", Properties: paired, Credit: 8,
		RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(),
	}))
	// go-amqp grants the credit from another goroutine, and an answer needs it to be there.
	time.Sleep(100 * time.Millisecond)
	return &management{sender, receiver}
}

func (m *management) ask(method, path string, body any, codes ...int) any {
	ctx, cancel := soon()
	defer cancel()
	replyTo := "$me"
	request := &amqp.Message{
		Properties: &amqp.MessageProperties{
			MessageID: "request", Subject: &method, To: &path, ReplyTo: &replyTo,
		},
		Value: body,
	}
	if body == nil { // which would be no section at all
		request.Value = amqp.Null{}
	}
	test.Check(m.sender.Send(ctx, request, &amqp.SendOptions{Settled: true}))
	answer := test.Must(m.receiver.Receive(ctx, nil))
	code := test.Must(strconv.Atoi(*answer.Properties.Subject))
	for _, expected := range codes {
		if code == expected {
			return answer.Value
		}
	}
	if len(codes) > 0 {
		panic(fmt.Errorf("%s %s: %d %v", method, path, code, answer.Value))
	}
	return answer.Value
}
