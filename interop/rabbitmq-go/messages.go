package main

import (
	"bytes"
	"math"
	"time"

	"github.com/Azure/go-amqp"
)

var messages = []scenario{{"sections", sections}, {"types", types}, {"bodies", bodies}, {"large", large}}

func roundTrip(s *scene, suffix string, message *amqp.Message) *amqp.Message {
	queue := s.declared(suffix, nil)
	s.publish(queue, message)
	delivery := receive(s.consumer(queue))
	check(delivery.Accept(soon()))
	return delivery.Message()
}

func sections(s *scene) {
	text := func(value string) *string { return &value }
	at := func(seconds int64) *time.Time { t := time.Unix(seconds, 0); return &t }
	sequence := uint32(3)
	sent := &amqp.Message{
		Header: &amqp.MessageHeader{Durable: true, Priority: 7, TTL: 10 * time.Minute},
		Properties: &amqp.MessageProperties{
			MessageID: "id-1", UserID: []byte(s.User), To: text("/somewhere"), Subject: text("subject"),
			ReplyTo: text("/answers"), CorrelationID: uint64(7), ContentType: text("text/plain"),
			ContentEncoding: text("gzip"), AbsoluteExpiryTime: at(4102444800), CreationTime: at(1700000000),
			GroupID: text("group"), GroupSequence: &sequence, ReplyToGroupID: text("answers"),
		},
		ApplicationProperties: map[string]any{"n": int64(7), "s": "text"},
		Annotations:           amqp.Annotations{"x-opt-text": "note", "x-opt-list": []any{int64(1), "two"}},
		Value:                 "body",
		Footer:                amqp.Annotations{"x-opt-end": "last"},
	}
	received := roundTrip(s, "", sent)
	header := received.Header
	equal("header", []any{header.Durable, header.Priority, header.TTL}, []any{true, uint8(7), 10 * time.Minute})
	equal("properties", received.Properties, sent.Properties)
	equal("application properties", received.ApplicationProperties, sent.ApplicationProperties)
	for key, value := range sent.Annotations {
		equal("annotation", received.Annotations[key], value)
	}
	equal("body", received.Value, sent.Value)
	equal("footer", received.Footer, sent.Footer)
}

func types(s *scene) {
	simple := map[string]any{
		"boolean": true, "ubyte": uint8(255), "ushort": uint16(65535), "uint": uint32(math.MaxUint32),
		"ulong": uint64(math.MaxUint64), "byte": int8(-128), "short": int16(-32768),
		"int": int32(math.MinInt32), "long": int64(math.MinInt64), "float": float32(1.5),
		"double": 2.5, "timestamp": time.UnixMilli(1700000000123),
		"uuid": amqp.UUID{1, 2, 3}, "binary": []byte{0, 255}, "string": "gr\u00fc\u00dfe",
		"symbol": amqp.Symbol("sym"),
	}
	body := map[string]any{"null": nil, "list": []any{int64(1), "two", []any{int64(3)}},
		"map": map[string]any{"a": int64(1)}, "array": []int32{1, 2}, "symbols": []amqp.Symbol{"a", "b"}}
	for name, value := range simple {
		body[name] = value
	}
	received := roundTrip(s, "", &amqp.Message{ApplicationProperties: simple, Value: body})
	for name, value := range simple {
		equal("application property "+name, received.ApplicationProperties[name], asRead(value))
	}
	for name, value := range received.Value.(map[string]any) {
		equal(name, value, asRead(body[name]))
	}
	equal("values", len(received.Value.(map[string]any)), len(body))
}

// asRead is the value that go-amqp, below this client, gives for one it wrote: symbols come as strings.
func asRead(value any) any {
	switch value := value.(type) {
	case amqp.Symbol:
		return string(value)
	case []amqp.Symbol:
		return []amqp.Symbol(value)
	}
	return value
}

func bodies(s *scene) {
	data := [][]byte{[]byte("one"), []byte("two"), []byte("three")}
	equal("data", roundTrip(s, "-datas", &amqp.Message{Data: data}).Data, data)
	empty := roundTrip(s, "-data", &amqp.Message{Data: [][]byte{{}}})
	equal("an empty section", []int{len(empty.Data), len(empty.GetData())}, []int{1, 0})
	sequences := [][]any{{int64(1)}, {int64(2), "three"}}
	equal("sequences", roundTrip(s, "-sequences", &amqp.Message{Sequence: sequences}).Sequence, sequences)
	equal("value", roundTrip(s, "-value", &amqp.Message{Value: "one"}).Value, any("one"))
}

func large(s *scene) {
	body := bytes.Repeat([]byte("a large body "), 10*1024*1024/13)
	equal("body", bytes.Equal(roundTrip(s, "", amqp.NewMessage(body)).GetData(), body), true)
}
