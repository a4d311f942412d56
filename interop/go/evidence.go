package test

import (
	"fmt"
	"strings"

	"github.com/Azure/go-amqp"
)

// Blame is what a consumer says when it discards a message.
type Blame struct {
	Condition, Description string
	Info                   map[string]any
}

// Said is the error of the first death, with a value of every type that go-amqp has in its info.
func Said() Blame {
	info := Values()
	info["null"], info["list"], info["map"] = nil, []any{int64(1), "two"}, map[string]any{"a": int64(1)}
	info["array"] = []int32{1, 2}
	return Blame{"app:schema", "no price, gr\u00fc\u00dfe", info}
}

// LastDeath checks what is written of the latest death of a message.
func LastDeath(message *amqp.Message, said Blame) {
	Equal("condition", message.Annotations["x-opt-last-death-condition"], any(said.Condition))
	Equal("description", message.Annotations["x-opt-last-death-description"], any(said.Description))
}

// By checks who caused a death; the port is the one thing that nobody knows before.
func By(observed any, how, container, link, user string) {
	by := Keyed(observed)
	host, _, _ := strings.Cut(by["address"].(string), ":")
	delete(by, "address")
	Equal("host of the consumer", host, "127.0.0.1")
	expected := map[string]any{"how": how, "container": container, "link": link, "user": user}
	Equal("by", by, expected)
}

// Reason checks the error in an entry of x-opt-deaths.
func Reason(entry map[string]any, said Blame) {
	Equal("condition", entry["error-condition"], any(said.Condition))
	Equal("description", entry["error-description"], any(said.Description))
	info, given := entry["error-info"]
	Equal("an info", given, said.Info != nil)
	if !given {
		return
	}
	observed := Keyed(info)
	Equal("values of the info", len(observed), len(said.Info))
	for name, value := range said.Info {
		Equal(name, observed[name], asRead(value))
	}
}

// Keyed is a map that came, by the texts of its keys: go-amqp gives symbols as strings.
func Keyed(observed any) map[string]any {
	found := map[string]any{}
	switch observed := observed.(type) {
	case map[string]any:
		return observed
	case map[any]any:
		for key, value := range observed {
			found[key.(string)] = value
		}
	default:
		panic(fmt.Errorf("no map: %#v", observed))
	}
	return found
}

// Entries are those of the history of a message, newest first.
func Entries(message *amqp.Message) []map[string]any {
	var found []map[string]any
	for _, entry := range message.Annotations["x-opt-deaths"].([]map[any]any) {
		found = append(found, Keyed(entry))
	}
	return found
}
