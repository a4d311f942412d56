module coroner/interop/test

go 1.25

require github.com/Azure/go-amqp v1.5.1
