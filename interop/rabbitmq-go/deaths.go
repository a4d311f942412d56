package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
	rmq "github.com/rabbitmq/rabbitmq-amqp-go-client/pkg/rabbitmqamqp"
)

var deaths = []scenario{
	{"rejected", rejected}, {"expired", expired}, {"maxlen", maxlen},
	{"delivery-limit", deliveryLimit}, {"cycle", cycle}, {"restart", restart},
}

func letter(header amqp.MessageHeader) *amqp.Message {
	subject := "greeting"
	return &amqp.Message{
		Header:                &header,
		Properties:            &amqp.MessageProperties{MessageID: "letter", Subject: &subject},
		ApplicationProperties: map[string]any{"n": int64(7)},
		Value:                 map[string]any{"text": "dear"},
	}
}

func unchanged(message *amqp.Message) {
	sent := letter(amqp.MessageHeader{})
	equal("properties", message.Properties, sent.Properties)
	equal("application properties", message.ApplicationProperties, sent.ApplicationProperties)
	equal("body", message.Value, sent.Value)
}

// death is one entry of x-opt-deaths; go-amqp gives its symbols as strings.
type death struct {
	queue, reason string
	count         uint64
	ttl           any
}

// history checks the whole of it: entries newest first, and the first death.
func history(message *amqp.Message, first death, entries ...death) {
	for when, expected := range map[string]death{"first": first, "last": entries[0]} {
		for what, value := range map[string]string{
			"queue": expected.queue, "reason": expected.reason, "exchange": "",
		} {
			name := fmt.Sprintf("x-%s-death-%s", when, what)
			equal(name, message.Annotations[name], any(value))
		}
	}
	observed := message.Annotations["x-opt-deaths"].([]map[any]any)
	equal("entries", len(observed), len(entries))
	for at, expected := range entries {
		entry := map[string]any{}
		for key, value := range observed[at] {
			entry[key.(string)] = value
		}
		begun, ended := entry["first-time"].(time.Time), entry["last-time"].(time.Time)
		equal("times", time.Since(ended) < time.Minute && !begun.After(ended), true)
		delete(entry, "first-time")
		delete(entry, "last-time")
		fields := map[string]any{
			"queue": expected.queue, "reason": expected.reason, "count": expected.count,
			"exchange": "", "routing-keys": []string{expected.queue},
		}
		if expected.ttl != nil {
			fields["ttl"] = expected.ttl
		}
		equal("entry", entry, fields)
	}
}

func to(queue string) map[string]any {
	return map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
}

// pair declares a queue, and one for its dead letters.
func pair(s *scene, more map[string]any) (queue, dead string) {
	dead = s.declared("-dead", nil)
	arguments := to(dead)
	for key, value := range more {
		arguments[key] = value
	}
	return s.declared("", arguments), dead
}

func reject(delivery rmq.IDeliveryContext) *amqp.Message {
	check(delivery.Discard(soon(), nil))
	return delivery.Message()
}

func rejected(s *scene) {
	last := s.declared("-last", nil)
	dead := s.declared("-dead", to(last))
	queue := s.declared("", to(dead))
	s.publish(queue, letter(amqp.MessageHeader{TTL: time.Minute}))
	receiver := s.consumer(queue)
	reject(receive(receiver))
	reader := s.consumer(dead)
	delivery := receive(reader)
	message := delivery.Message()
	unchanged(message)
	equal("ttl of the dead letter", message.Header.TTL, 0)
	once := death{queue, "rejected", 1, uint32(60_000)}
	history(message, once, once)
	reject(delivery)
	message = receive(s.consumer(last)).Message()
	unchanged(message)
	history(message, once, death{dead, "rejected", 1, nil}, once)
}

func expired(s *scene) {
	queue, dead := pair(s, map[string]any{"x-message-ttl": int64(100)})
	receiver := s.consumer(dead)
	begun := time.Now()
	s.publish(queue, letter(amqp.MessageHeader{}))
	message := receive(receiver).Message()
	equal("within a second", time.Since(begun) < time.Second, true)
	unchanged(message)
	once := death{queue, "expired", 1, nil}
	history(message, once, once)
}

func maxlen(s *scene) {
	queue, dead := pair(s, map[string]any{"x-max-length": int64(1)})
	s.publish(queue, letter(amqp.MessageHeader{}), &amqp.Message{Value: "second"})
	message := receive(s.consumer(dead)).Message()
	unchanged(message)
	once := death{queue, "maxlen", 1, nil}
	history(message, once, once)
	equal("left in the queue", s.count(queue), 1)
}

func deliveryLimit(*scene) {
	panic(skipped(version + " sends modified with delivery-failed only together with undeliverable-here"))
}

func cycle(s *scene) {
	alone := s.declared("-alone", map[string]any{"x-message-ttl": int64(50), "x-dead-letter-exchange": ""})
	s.publish(alone, letter(amqp.MessageHeader{}))
	until("it still turns", func() bool { return s.count(alone) == 0 })
	queue := s.declared("-rejected", map[string]any{"x-dead-letter-exchange": ""})
	s.publish(queue, letter(amqp.MessageHeader{}))
	receiver := s.consumer(queue)
	for range 2 {
		reject(receive(receiver))
	}
	twice := death{queue, "rejected", 2, nil}
	history(receive(receiver).Message(), twice, twice)
}

func restart(s *scene) {
	quorumType := map[string]any{"x-queue-type": "quorum"}
	classic, quorum := s.declared("-classic", nil), s.declared("-quorum", quorumType)
	queue, dead := pair(s, quorumType)
	s.publish(queue, letter(amqp.MessageHeader{Durable: true}))
	receiver := s.consumer(queue)
	reject(receive(receiver))
	until("it is not dead-lettered", func() bool { return s.count(dead) == 1 })
	// What is confirmed now makes all before it safe, the rejection too.
	s.publish(classic, &amqp.Message{Header: &amqp.MessageHeader{Durable: true}, Value: "kept"},
		&amqp.Message{Header: &amqp.MessageHeader{}, Value: "lost"}) // durable without a header
	s.publish(quorum, &amqp.Message{Header: &amqp.MessageHeader{}, Value: "quorum"})
	fmt.Println("restart")
	equal("answer", strings.TrimSpace(must(input.ReadString('\n'))), "restarted")
	s.again()
	for _, kept := range []string{classic, quorum, dead} {
		equal(kept, s.count(kept), 1)
	}
	equal("in the classic queue", receive(s.consumer(classic)).Message().Value, any("kept"))
	equal("in the quorum queue", receive(s.consumer(quorum)).Message().Value, any("quorum"))
	message := receive(s.consumer(dead)).Message()
	unchanged(message)
	once := death{queue, "rejected", 1, nil}
	history(message, once, once)
}
