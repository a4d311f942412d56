package main

import (
	"coroner/interop/test"

	"github.com/Azure/go-amqp"
)

var messages = test.Messages(roundTrip, func(s *scene) string { return s.User })

func roundTrip(s *scene, suffix string, message *amqp.Message) *amqp.Message {
	queue := s.Queue(suffix, nil)
	s.Publish(queue, message)
	delivery := receive(s.consumer(queue))
	test.Check(delivery.Accept(soon()))
	return delivery.Message()
}
