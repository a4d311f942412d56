package test

import (
	"fmt"
	"time"

	"github.com/Azure/go-amqp"
)

// Letter is the message that dies.
func Letter(header amqp.MessageHeader) *amqp.Message {
	subject := "greeting"
	return &amqp.Message{
		Header:                &header,
		Properties:            &amqp.MessageProperties{MessageID: "letter", Subject: &subject},
		ApplicationProperties: map[string]any{"n": int64(7)},
		Value:                 map[string]any{"text": "dear"},
	}
}

// Unchanged is a letter that came back as it was sent.
func Unchanged(message *amqp.Message) {
	sent := Letter(amqp.MessageHeader{})
	Equal("properties", message.Properties, sent.Properties)
	Equal("application properties", message.ApplicationProperties, sent.ApplicationProperties)
	Equal("body", message.Value, sent.Value)
}

// Death is one entry of x-opt-deaths; go-amqp gives its symbols as strings.
type Death struct {
	Queue, Reason string
	Count         uint64
	TTL           any
}

// History checks the whole of it: entries newest first, and the first death.
func History(message *amqp.Message, first Death, entries ...Death) {
	for when, expected := range map[string]Death{"first": first, "last": entries[0]} {
		for what, value := range map[string]string{
			"queue": expected.Queue, "reason": expected.Reason, "exchange": "",
		} {
			name := fmt.Sprintf("x-%s-death-%s", when, what)
			Equal(name, message.Annotations[name], any(value))
		}
	}
	observed := message.Annotations["x-opt-deaths"].([]map[any]any)
	Equal("entries", len(observed), len(entries))
	for at, expected := range entries {
		entry := map[string]any{}
		for key, value := range observed[at] {
			entry[key.(string)] = value
		}
		begun, ended := entry["first-time"].(time.Time), entry["last-time"].(time.Time)
		Equal("times", time.Since(ended) < time.Minute && !begun.After(ended), true)
		delete(entry, "first-time")
		delete(entry, "last-time")
		fields := map[string]any{
			"queue": expected.Queue, "reason": expected.Reason, "count": expected.Count,
			"exchange": "", "routing-keys": []string{expected.Queue},
		}
		if expected.TTL != nil {
			fields["ttl"] = expected.TTL
		}
		Equal("entry", entry, fields)
	}
}

// To are the arguments of a queue that dead-letters to another.
func To(queue string) map[string]any {
	return map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
}
