package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"coroner/interop/test"

	"github.com/Azure/go-amqp"
	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
)

const version = "rabbitmq-amqp-go-client 1.0.0"

// scene is one connection and the queues of one scenario.
type scene struct {
	test.Setting
	prefix      string
	connection  *rmq.AmqpConnection
	management  *rmq.AmqpManagement
	queues      []string
	connections []*rmq.AmqpConnection
}

func open(with test.Setting, name string) *scene {
	s := &scene{Setting: with, prefix: with.Prefix + name}
	s.Again()
	return s
}

// Again connects, anew after a restart.
func (s *scene) Again() {
	s.connection = test.Must(s.dial("/", s.login(nil)))
	s.management = s.connection.Management()
}

// Close deletes the queues of the scenario.
func (s *scene) Close() {
	for _, queue := range s.queues {
		s.management.DeleteQueue(soon(), queue) // which may be gone
	}
	for _, connection := range s.connections {
		connection.Close(soon())
	}
}

// soon is a context that nothing here outlives.
func soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), test.Timeout)
	time.AfterFunc(test.Timeout, cancel)
	return ctx
}

// login is PLAIN, without the client's own recovery: a scenario sees what the broker did.
func (s *scene) login(config *tls.Config) *rmq.AmqpConnOptions {
	return &rmq.AmqpConnOptions{
		SASLType: amqp.SASLTypePlain(s.User, s.Password), TLSConfig: config,
		RecoveryConfiguration: &rmq.RecoveryConfiguration{ActiveRecovery: false},
	}
}

// dial connects to a vhost; over TLS if the options have it.
func (s *scene) dial(vhost string, options *rmq.AmqpConnOptions) (*rmq.AmqpConnection, error) {
	url := fmt.Sprintf("amqp://%s:%d%s", s.Host, s.Amqp, vhost)
	if options.TLSConfig != nil {
		url = fmt.Sprintf("amqps://localhost:%d%s", s.Amqps, vhost)
	}
	connection, err := rmq.Dial(soon(), url, options)
	if err == nil {
		s.connections = append(s.connections, connection)
	}
	return connection, err
}

// Queue is a new queue of the default type.
func (s *scene) Queue(suffix string, arguments map[string]any) string {
	name := s.prefix + suffix
	s.management.DeleteQueue(soon(), name)
	test.Must(s.management.DeclareQueue(soon(), &rmq.DefaultQueueSpecification{Name: name, Arguments: arguments}))
	s.queues = append(s.queues, name)
	return name
}

func (s *scene) Count(queue string) uint64 {
	return test.Must(s.management.QueueInfo(soon(), queue)).MessageCount()
}

func (s *scene) publisher(target rmq.ITargetAddress) *rmq.Publisher {
	return test.Must(s.connection.NewPublisher(soon(), target, nil))
}

func (s *scene) consumer(queue string) *rmq.Consumer {
	return test.Must(s.connection.NewConsumer(soon(), queue, nil))
}

func (s *scene) Publish(queue string, messages ...*amqp.Message) {
	publisher := s.publisher(&rmq.QueueAddress{Queue: queue})
	for _, message := range messages {
		test.Equal("outcome", outcome(publisher, message), rmq.DeliveryState(&rmq.StateAccepted{}))
	}
	test.Check(publisher.Close(soon()))
}

func outcome(publisher *rmq.Publisher, message *amqp.Message) rmq.DeliveryState {
	return test.Must(publisher.Publish(soon(), message)).Outcome
}

func receive(consumer *rmq.Consumer) rmq.IDeliveryContext {
	return test.Must(consumer.Receive(soon()))
}

// nothing fails if a message comes for the credit there is.
func nothing(consumer *rmq.Consumer) {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if delivery, err := consumer.Receive(ctx); err == nil {
		panic(fmt.Errorf("unexpected message %v", delivery.Message().Value))
	}
}
