package test

import (
	"bytes"
	"math"
	"time"

	"github.com/Azure/go-amqp"
)

// rounds knows how a client sends a message through a queue of this suffix and gets it back.
type rounds[S Scene] struct {
	through func(s S, suffix string, message *amqp.Message) *amqp.Message
	user    func(S) string
}

// Messages are the scenarios that send every type and section; user is who is logged in.
func Messages[S Scene](
	through func(s S, suffix string, message *amqp.Message) *amqp.Message, user func(S) string,
) []Scenario[S] {
	r := rounds[S]{through, user}
	return []Scenario[S]{
		{"sections", r.sections}, {"types", r.types}, {"bodies", r.bodies}, {"large", r.large},
	}
}

func (r rounds[S]) sections(s S) {
	text := func(value string) *string { return &value }
	at := func(seconds int64) *time.Time { t := time.Unix(seconds, 0); return &t }
	sequence := uint32(3)
	sent := &amqp.Message{
		Header: &amqp.MessageHeader{Durable: true, Priority: 7, TTL: 10 * time.Minute},
		Properties: &amqp.MessageProperties{
			MessageID: "id-1", UserID: []byte(r.user(s)), To: text("/somewhere"), Subject: text("subject"),
			ReplyTo: text("/answers"), CorrelationID: uint64(7), ContentType: text("text/plain"),
			ContentEncoding: text("gzip"), AbsoluteExpiryTime: at(4102444800), CreationTime: at(1700000000),
			GroupID: text("group"), GroupSequence: &sequence, ReplyToGroupID: text("answers"),
		},
		ApplicationProperties: map[string]any{"n": int64(7), "s": "text"},
		Annotations:           amqp.Annotations{"x-opt-text": "note", "x-opt-list": []any{int64(1), "two"}},
		Value:                 "body",
		Footer:                amqp.Annotations{"x-opt-end": "last"},
	}
	received := r.through(s, "", sent)
	header := received.Header
	Equal("header", []any{header.Durable, header.Priority, header.TTL}, []any{true, uint8(7), 10 * time.Minute})
	Equal("properties", received.Properties, sent.Properties)
	Equal("application properties", received.ApplicationProperties, sent.ApplicationProperties)
	for key, value := range sent.Annotations {
		Equal("annotation", received.Annotations[key], value)
	}
	Equal("body", received.Value, sent.Value)
	Equal("footer", received.Footer, sent.Footer)
}

// Values are one of every simple type that go-amqp has.
func Values() map[string]any {
	return map[string]any{
		"boolean": true, "ubyte": uint8(255), "ushort": uint16(65535), "uint": uint32(math.MaxUint32),
		"ulong": uint64(math.MaxUint64), "byte": int8(-128), "short": int16(-32768),
		"int": int32(math.MinInt32), "long": int64(math.MinInt64), "float": float32(1.5),
		"double": 2.5, "timestamp": time.UnixMilli(1700000000123),
		"uuid": amqp.UUID{1, 2, 3}, "binary": []byte{0, 255}, "string": "gr\u00fc\u00dfe",
		"symbol": amqp.Symbol("sym"),
	}
}

func (r rounds[S]) types(s S) {
	simple := Values()
	body := map[string]any{"null": nil, "list": []any{int64(1), "two", []any{int64(3)}},
		"map": map[string]any{"a": int64(1)}, "array": []int32{1, 2}, "symbols": []amqp.Symbol{"a", "b"}}
	for name, value := range simple {
		body[name] = value
	}
	received := r.through(s, "", &amqp.Message{ApplicationProperties: simple, Value: body})
	for name, value := range simple {
		Equal("application property "+name, received.ApplicationProperties[name], asRead(value))
	}
	for name, value := range received.Value.(map[string]any) {
		Equal(name, value, asRead(body[name]))
	}
	Equal("values", len(received.Value.(map[string]any)), len(body))
}

// asRead is the value that go-amqp gives for one it wrote: symbols come as strings.
func asRead(value any) any {
	switch value := value.(type) {
	case amqp.Symbol:
		return string(value)
	case []amqp.Symbol:
		return []amqp.Symbol(value)
	}
	return value
}

func (r rounds[S]) bodies(s S) {
	data := [][]byte{[]byte("one"), []byte("two"), []byte("three")}
	Equal("data", r.through(s, "-datas", &amqp.Message{Data: data}).Data, data)
	empty := r.through(s, "-data", &amqp.Message{Data: [][]byte{{}}})
	Equal("an empty section", []int{len(empty.Data), len(empty.GetData())}, []int{1, 0})
	sequences := [][]any{{int64(1)}, {int64(2), "three"}}
	Equal("sequences", r.through(s, "-sequences", &amqp.Message{Sequence: sequences}).Sequence, sequences)
	Equal("value", r.through(s, "-value", &amqp.Message{Value: "one"}).Value, any("one"))
}

func (r rounds[S]) large(s S) {
	body := bytes.Repeat([]byte("a large body "), 10*1024*1024/13)
	Equal("body", bytes.Equal(r.through(s, "", amqp.NewMessage(body)).GetData(), body), true)
}
