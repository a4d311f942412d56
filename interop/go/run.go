package test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Setting is what interop/matrix writes for its clients.
type Setting struct {
	Host        string
	Amqp        int
	Amqps       int
	Bare        int
	User        string
	Password    string
	Vhost       string
	Ca          string
	Certificate string
	Key         string
	Prefix      string
}

// TLS trusts the authority of the broker's certificate.
func (s Setting) TLS() *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(Must(os.ReadFile(s.Ca)))
	return &tls.Config{RootCAs: pool, ServerName: "localhost"}
}

// Scene is what one scenario works on.
type Scene interface{ Close() }

// Scenario is one function for one row of SCENARIOS.md. It panics through Check and Equal.
type Scenario[S Scene] struct {
	Name string
	Run  func(S)
}

// Skipped is the panic of a scenario that this client cannot do.
type Skipped string

func (s Skipped) Error() string { return string(s) }

var input = bufio.NewReader(os.Stdin)

// RestartBroker has the broker killed and started again.
func RestartBroker() {
	fmt.Println("restart")
	Equal("answer", strings.TrimSpace(Must(input.ReadString('\n'))), "restarted")
}

// Run goes through the scenarios that the program was called for, and ends it.
func Run[S Scene](open func(Setting, string) S, parts ...[]Scenario[S]) {
	text, err := os.ReadFile(os.Args[1])
	Check(err)
	var with Setting
	Check(json.Unmarshal(text, &with))
	wanted := os.Args[2:]
	scenarios := map[string]func(S){}
	for _, part := range parts {
		for _, one := range part {
			scenarios[one.Name] = one.Run
			if len(os.Args) == 2 {
				wanted = append(wanted, one.Name)
			}
		}
	}
	status := 0
	for _, name := range wanted {
		var skip Skipped
		err := run(scenarios[name], func() S { return open(with, name) })
		switch {
		case err == nil:
			fmt.Println("ok", name)
		case errors.As(err, &skip):
			fmt.Println("skip", name, skip)
		default:
			fmt.Println("fail", name, strings.ReplaceAll(err.Error(), "\n", " "))
			status = 1
		}
	}
	os.Exit(status)
}

func run[S Scene](scenario func(S), open func() S) (err error) {
	if scenario == nil {
		return Skipped("not written for this client")
	}
	defer func() {
		if thrown := recover(); thrown != nil {
			err = thrown.(error)
		}
	}()
	scene := open()
	defer scene.Close()
	scenario(scene)
	return nil
}
