module coroner/interop

go 1.25

require github.com/Azure/go-amqp v1.7.0

require coroner/interop/test v0.0.0

replace coroner/interop/test => ../go
