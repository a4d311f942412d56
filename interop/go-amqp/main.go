// go-amqp (Go) through the scenarios of ../SCENARIOS.md.
//
//	go run . SETTING.json [SCENARIO ...]
package main

import "coroner/interop/test"

func main() {
	test.Run(open, connections, messages, links, deaths, evidence, later)
}
