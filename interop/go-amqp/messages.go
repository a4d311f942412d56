package main

import (
	"coroner/interop/test"

	"github.com/Azure/go-amqp"
)

var messages = test.Messages(roundTrip, func(s *scene) string { return s.User })

func roundTrip(s *scene, suffix string, message *amqp.Message) *amqp.Message {
	queue := s.Queue(suffix, nil)
	s.Publish(queue, message)
	receiver := s.receiver(queue, nil)
	received := receive(receiver)
	accept(receiver, received)
	return received
}
