package test

import (
	"errors"

	"github.com/Azure/go-amqp"
)

// Condition is that of the error the broker gave.
func Condition(err error) string {
	var link *amqp.LinkError
	var connection *amqp.ConnError
	var plain *amqp.Error
	switch {
	case err == nil:
		return "no error"
	case errors.As(err, &link) && link.RemoteErr != nil:
		return string(link.RemoteErr.Condition)
	case errors.As(err, &connection) && connection.RemoteErr != nil:
		return string(connection.RemoteErr.Condition)
	case errors.As(err, &plain):
		return string(plain.Condition)
	}
	return err.Error()
}
