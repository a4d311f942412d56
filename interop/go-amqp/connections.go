package main

import (
	"crypto/tls"
	"fmt"
	"strings"

	"coroner/interop/test"

	"github.com/Azure/go-amqp"
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
	wrong := amqp.ConnOptions{SASLType: amqp.SASLTypePlain(s.User, "wrong")}
	_, err := s.dial(fmt.Sprintf("amqp://%s:%d", s.Host, s.Amqp), wrong)
	if err == nil || !strings.Contains(err.Error(), "code 0x1") {
		panic(fmt.Errorf("a wrong password: %v", err))
	}
	s.connect(amqp.ConnOptions{})
}

// through publishes on a session and receives on that of the scene.
func through(s *scene, session *amqp.Session) {
	queue := s.Queue("", nil)
	sender := test.Must(s.sender(session, "/queues/"+queue, nil))
	outcome(sender, &amqp.Message{Value: "through"})
	test.Equal("body", receive(s.receiver(queue, nil)).Value, any("through"))
}

func anonymous(s *scene) {
	through(s, s.begin(s.connect(amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()})))
}

func scram(*scene) {
	panic(test.Skipped("go-amqp 1.7.0 has PLAIN, ANONYMOUS, EXTERNAL and XOAUTH2 only"))
}

func overTLS(s *scene) {
	url := fmt.Sprintf("amqps://localhost:%d", s.Amqps)
	test.Must(s.dial(url, amqp.ConnOptions{TLSConfig: s.TLS(), SASLType: amqp.SASLTypePlain(s.User, s.Password)}))
}

func external(s *scene) {
	config := s.TLS()
	config.Certificates = []tls.Certificate{test.Must(tls.LoadX509KeyPair(s.Certificate, s.Key))}
	url := fmt.Sprintf("amqps://localhost:%d", s.Amqps)
	test.Must(s.dial(url, amqp.ConnOptions{TLSConfig: config, SASLType: amqp.SASLTypeExternal("")}))
}

func noSASL(s *scene) {
	connection := test.Must(s.dial(fmt.Sprintf("amqp://%s:%d", s.Host, s.Bare), amqp.ConnOptions{}))
	through(s, s.begin(connection))
}

func vhost(s *scene) {
	session := s.begin(s.connect(amqp.ConnOptions{HostName: "vhost:" + s.Vhost}))
	management := openManagement(session)
	name := s.prefix
	management.ask("PUT", "/queues/"+name, map[string]any{}, 200, 201)
	_, err := s.attach(s.session, "/queues/"+name, nil)
	test.Equal("condition", test.Condition(err), "amqp:not-found")
	test.Must(s.attach(session, "/queues/"+name, nil))
	management.ask("DELETE", "/queues/"+name, nil, 200)
	options := amqp.ConnOptions{
		HostName: "vhost:interop-missing", SASLType: amqp.SASLTypePlain(s.User, s.Password),
	}
	// The broker opens before it closes: the error may meet the session instead.
	connection, err := s.dial(fmt.Sprintf("amqp://%s:%d", s.Host, s.Amqp), options)
	if err == nil {
		ctx, cancel := soon()
		defer cancel()
		_, err = connection.NewSession(ctx, nil)
	}
	test.Equal("condition", test.Condition(err), "amqp:not-found")
}

func frames(s *scene) {
	queue := s.Queue("", nil)
	session := s.begin(s.connect(amqp.ConnOptions{MaxFrameSize: 512}))
	body := []byte(strings.Repeat("frames ", 3000))
	sender := test.Must(s.sender(session, "/queues/"+queue, nil))
	outcome(sender, amqp.NewMessage(body))
	receiver := test.Must(s.attach(session, "/queues/"+queue, nil))
	test.Equal("body", receive(receiver).GetData(), body)
}

func declare(s *scene) {
	ask, name := s.management.ask, s.prefix
	exchange := name + "-exchange"
	limit := func(length uint64) map[string]any {
		return map[string]any{"arguments": map[string]any{"x-max-length": length}}
	}
	ask("DELETE", "/queues/"+name, nil)
	s.queues = append(s.queues, name)
	ask("PUT", "/queues/"+name, limit(5), 201)
	ask("PUT", "/queues/"+name, limit(5), 200)
	ask("PUT", "/queues/"+name, limit(6), 409)
	info := ask("GET", "/queues/"+name, nil, 200).(map[string]any)
	test.Equal("queue", []any{info["name"], info["type"], info["message_count"]}, []any{name, "classic", uint64(0)})
	ask("PUT", "/exchanges/"+exchange, map[string]any{"type": "topic"}, 204)
	ask("POST", "/bindings", map[string]any{
		"source": exchange, "destination_queue": name, "binding_key": "a.#", "arguments": map[string]any{},
	}, 204)
	path := "/bindings?src=" + exchange + "&dstq=" + name + "&key=a.%23"
	found := ask("GET", path, nil, 200).([]any)
	test.Equal("bindings", len(found), 1)
	ask("DELETE", found[0].(map[string]any)["location"].(string), nil, 204)
	test.Equal("bindings", len(ask("GET", path, nil, 200).([]any)), 0)
	s.Publish(name, &amqp.Message{Value: int64(1)}, &amqp.Message{Value: int64(2)})
	purged := ask("DELETE", "/queues/"+name+"/messages", nil, 200).(map[string]any)
	test.Equal("purged", purged["message_count"], any(uint64(2)))
	ask("DELETE", "/exchanges/"+exchange, nil, 204)
	ask("DELETE", "/queues/"+name, nil, 200)
	ask("GET", "/queues/"+name, nil, 404)
}
