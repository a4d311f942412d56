package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/go-amqp"
	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
)

var connections = []scenario{
	{"plain", plain}, {"anonymous", anonymous}, {"scram", scram}, {"tls", overTLS},
	{"external", external}, {"no-sasl", noSASL}, {"vhost", vhost}, {"frames", frames},
	{"declare", declare},
}

func plain(s *scene) {
	wrong := s.login(nil)
	wrong.SASLType = amqp.SASLTypePlain(s.User, "wrong")
	_, err := s.dial("/", wrong)
	if err == nil || !strings.Contains(err.Error(), "code 0x1") {
		panic(fmt.Errorf("a wrong password: %v", err))
	}
	must(s.dial("/", s.login(nil)))
}

func anonymous(s *scene) {
	queue := s.declared("", nil)
	options := s.login(nil)
	options.SASLType = amqp.SASLTypeAnonymous()
	connection := must(s.dial("/", options))
	outcome(must(connection.NewPublisher(soon(), &rmq.QueueAddress{Queue: queue}, nil)), rmq.NewMessage([]byte("x")))
	equal("body", receive(s.consumer(queue)).Message().GetData(), []byte("x"))
}

func scram(*scene) {
	panic(skipped(version + " has PLAIN, ANONYMOUS and EXTERNAL only"))
}

func overTLS(s *scene) {
	must(s.dial("/", s.login(s.tls())))
}

func external(s *scene) {
	config := s.tls()
	config.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(s.Certificate, s.Key))}
	options := s.login(config)
	options.SASLType = amqp.SASLTypeExternal("")
	must(s.dial("/", options))
}

func noSASL(*scene) {
	panic(skipped(version + " logs in as ANONYMOUS where it is given nothing"))
}

func vhost(s *scene) {
	other := must(s.dial("/"+s.Vhost, s.login(nil)))
	name := s.prefix
	must(other.Management().DeclareQueue(soon(), &rmq.ClassicQueueSpecification{Name: name}))
	_, err := s.connection.NewConsumer(soon(), name, nil)
	equal("condition", condition(err), "amqp:not-found")
	must(other.NewConsumer(soon(), name, nil))
	check(other.Management().DeleteQueue(soon(), name))
	_, err = s.dial("/interop-missing", s.login(nil))
	equal("condition", condition(err), "amqp:not-found")
}

func frames(s *scene) {
	queue := s.declared("", nil)
	options := s.login(nil)
	options.MaxFrameSize = 512
	connection := must(s.dial("/", options))
	body := []byte(strings.Repeat("frames ", 3000))
	outcome(must(connection.NewPublisher(soon(), &rmq.QueueAddress{Queue: queue}, nil)), rmq.NewMessage(body))
	equal("body", receive(must(connection.NewConsumer(soon(), queue, nil))).Message().GetData(), body)
}

func declare(s *scene) {
	name, exchange, manage := s.prefix, s.prefix+"-exchange", s.management
	manage.DeleteQueue(soon(), name)
	limit := func(length int64) error {
		_, err := manage.DeclareQueue(soon(), &rmq.ClassicQueueSpecification{Name: name, MaxLength: length})
		return err
	}
	check(limit(5))
	s.queues = append(s.queues, name)
	check(limit(5))
	equal("other arguments", errors.Is(limit(6), rmq.ErrPreconditionFailed), true)
	info := must(manage.QueueInfo(soon(), name))
	equal("queue", []any{info.Name(), info.Type(), info.MessageCount()}, []any{name, rmq.Classic, uint64(0)})
	must(manage.DeclareExchange(soon(), &rmq.TopicExchangeSpecification{Name: exchange}))
	path := must(manage.Bind(soon(), &rmq.ExchangeToQueueBindingSpecification{
		SourceExchange: exchange, DestinationQueue: name, BindingKey: "a.#",
	}))
	publisher := s.publisher(&rmq.ExchangeAddress{Exchange: exchange, Key: "a.b"})
	for range 2 {
		equal("bound", outcome(publisher, rmq.NewMessage([]byte("x"))), rmq.DeliveryState(&rmq.StateAccepted{}))
	}
	check(manage.Unbind(soon(), path))
	equal("unbound", outcome(publisher, rmq.NewMessage([]byte("x"))), rmq.DeliveryState(&rmq.StateReleased{}))
	equal("purged", must(manage.PurgeQueue(soon(), name)), 2)
	check(manage.DeleteExchange(soon(), exchange))
	check(manage.DeleteQueue(soon(), name))
	_, err := manage.QueueInfo(soon(), name)
	equal("missing", errors.Is(err, rmq.ErrDoesNotExist), true)
}
