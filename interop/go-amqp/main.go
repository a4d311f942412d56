// go-amqp (Go) through the scenarios of ../SCENARIOS.md.
//
//	go run . SETTING.json [SCENARIO ...]
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// scenario is one function for one row of SCENARIOS.md. It panics through check and equal.
type scenario struct {
	name string
	run  func(*scene)
}

// skipped is the panic of a scenario that this client cannot do.
type skipped string

func (s skipped) Error() string { return string(s) }

var input = bufio.NewReader(os.Stdin)

func main() {
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var with setting
	check(json.Unmarshal(text, &with))
	all := append(append(append(append(connections, messages...), links...), deaths...), pages...)
	wanted := os.Args[2:]
	if len(wanted) == 0 {
		for _, one := range all {
			wanted = append(wanted, one.name)
		}
	}
	status := 0
	for _, name := range wanted {
		var skip skipped
		switch err := run(with, name, all); {
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

func run(with setting, name string, all []scenario) (err error) {
	for _, one := range all {
		if one.name != name {
			continue
		}
		defer func() {
			if thrown := recover(); thrown != nil {
				err = thrown.(error)
			}
		}()
		s := open(with, name)
		defer s.close()
		one.run(s)
		return nil
	}
	return skipped("not written for this client")
}
