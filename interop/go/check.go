// Package test is what the clients in Go share: running scenarios, comparing, messages and histories.
package test

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Timeout is how long a scenario waits for anything.
const Timeout = 10 * time.Second

// Until waits for what has to become true.
func Until(what string, holds func() bool) {
	for deadline := time.Now().Add(Timeout); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			panic(errors.New(what))
		}
	}
}

// Check panics with an error, which Run reports.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}

// Must is the value of a call that must not fail.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Equal compares values with their types.
func Equal[T any](what string, observed, expected T) {
	if !reflect.DeepEqual(observed, expected) {
		panic(fmt.Errorf("%s: %#v instead of %#v", what, observed, expected))
	}
}
