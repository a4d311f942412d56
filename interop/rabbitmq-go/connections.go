package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"coroner/interop/test"

	"github.com/Azure/go-amqp"
	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
)

var connections = []test.Scenario[*scene]{
	{Name: "plain", Run: plain},
	{Name: "anonymous", Run: anonymous},
	{Name: "scram", Run: scram},
	{Name: "tls", Run: overTLS},
	{Name: "external", Run: external},
	{Name: "no-sasl", Run: noSASL},
	{Name: "vhost", Run: vhost},
	{Name: "frames", Run: frames},
	{Name: "declare", Run: declare},
}

func plain(s *scene) {
	wrong := s.login(nil)
	wrong.SASLType = amqp.SASLTypePlain(s.User, "wrong")
	_, err := s.dial("/", wrong)
	if err == nil || !strings.Contains(err.Error(), "code 0x1") {
		panic(fmt.Errorf("a wrong password: %v", err))
	}
	test.Must(s.dial("/", s.login(nil)))
}

func anonymous(s *scene) {
	queue := s.Queue("", nil)
	options := s.login(nil)
	options.SASLType = amqp.SASLTypeAnonymous()
	connection := test.Must(s.dial("/", options))
	outcome(test.Must(connection.NewPublisher(soon(), &rmq.QueueAddress{Queue: queue}, nil)), rmq.NewMessage([]byte("x")))
	test.Equal("body", receive(s.consumer(queue)).Message().GetData(), []byte("x"))
}

func scram(*scene) {
	panic(test.Skipped(version + " has PLAIN, ANONYMOUS and EXTERNAL only"))
}

func overTLS(s *scene) {
	test.Must(s.dial("/", s.login(s.TLS())))
}

func external(s *scene) {
	config := s.TLS()
	config.Certificates = []tls.Certificate{test.Must(tls.LoadX509KeyPair(s.Certificate, s.Key))}
	options := s.login(config)
	options.SASLType = amqp.SASLTypeExternal("")
	test.Must(s.dial("/", options))
}

func noSASL(*scene) {
	panic(test.Skipped(version + " logs in as ANONYMOUS where it is given nothing"))
}

func vhost(s *scene) {
	other := test.Must(s.dial("/"+s.Vhost, s.login(nil)))
	name := s.prefix
	test.Must(other.Management().DeclareQueue(soon(), &rmq.ClassicQueueSpecification{Name: name}))
	_, err := s.connection.NewConsumer(soon(), name, nil)
	test.Equal("condition", test.Condition(err), "amqp:not-found")
	test.Must(other.NewConsumer(soon(), name, nil))
	test.Check(other.Management().DeleteQueue(soon(), name))
	_, err = s.dial("/interop-missing", s.login(nil))
	test.Equal("condition", test.Condition(err), "amqp:not-found")
}

func frames(s *scene) {
	queue := s.Queue("", nil)
	options := s.login(nil)
	options.MaxFrameSize = 512
	connection := test.Must(s.dial("/", options))
	body := []byte(strings.Repeat("frames ", 3000))
	outcome(test.Must(connection.NewPublisher(soon(), &rmq.QueueAddress{Queue: queue}, nil)), rmq.NewMessage(body))
	test.Equal("body", receive(test.Must(connection.NewConsumer(soon(), queue, nil))).Message().GetData(), body)
}

func declare(s *scene) {
	name, exchange, manage := s.prefix, s.prefix+"-exchange", s.management
	manage.DeleteQueue(soon(), name)
	limit := func(length int64) error {
		_, err := manage.DeclareQueue(soon(), &rmq.ClassicQueueSpecification{Name: name, MaxLength: length})
		return err
	}
	test.Check(limit(5))
	s.queues = append(s.queues, name)
	test.Check(limit(5))
	test.Equal("other arguments", errors.Is(limit(6), rmq.ErrPreconditionFailed), true)
	info := test.Must(manage.QueueInfo(soon(), name))
	test.Equal("queue", []any{info.Name(), info.Type(), info.MessageCount()}, []any{name, rmq.Classic, uint64(0)})
	test.Must(manage.DeclareExchange(soon(), &rmq.TopicExchangeSpecification{Name: exchange}))
	path := test.Must(manage.Bind(soon(), &rmq.ExchangeToQueueBindingSpecification{
		SourceExchange: exchange, DestinationQueue: name, BindingKey: "a.#",
	}))
	publisher := s.publisher(&rmq.ExchangeAddress{Exchange: exchange, Key: "a.b"})
	for range 2 {
		test.Equal("bound", outcome(publisher, rmq.NewMessage([]byte("x"))), rmq.DeliveryState(&rmq.StateAccepted{}))
	}
	test.Check(manage.Unbind(soon(), path))
	test.Equal("unbound", outcome(publisher, rmq.NewMessage([]byte("x"))), rmq.DeliveryState(&rmq.StateReleased{}))
	test.Equal("purged", test.Must(manage.PurgeQueue(soon(), name)), 2)
	test.Check(manage.DeleteExchange(soon(), exchange))
	test.Check(manage.DeleteQueue(soon(), name))
	_, err := manage.QueueInfo(soon(), name)
	test.Equal("missing", errors.Is(err, rmq.ErrDoesNotExist), true)
}
