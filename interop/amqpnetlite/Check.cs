using System;
using System.Collections;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Amqp;
using Amqp.Framing;
using Amqp.Types;

namespace Interop
{
    /// <summary>Comparing and waiting.</summary>
    static class Check
    {
        public static readonly TimeSpan Limit = TimeSpan.FromSeconds(10);
        public static readonly TimeSpan Silence = TimeSpan.FromMilliseconds(300);

        public static void That(string what, bool holds)
        {
            if (!holds)
            {
                throw new InvalidOperationException(what);
            }
        }

        /// <summary>Values are equal with their types; those that hold others by what they hold.</summary>
        public static void Equal(string what, object observed, object expected)
        {
            That(what + ": " + Text(observed) + " instead of " + Text(expected), Same(observed, expected));
        }

        public static void Until(string what, Func<bool> holds)
        {
            for (DateTime end = DateTime.UtcNow + Limit; !holds(); Thread.Sleep(20))
            {
                That(what, DateTime.UtcNow < end);
            }
        }

        public static T Soon<T>(string what, Task<T> task)
        {
            That(what + ": nothing came", task.Wait(Limit));
            return task.Result;
        }

        /// <summary>The broker ends what is attempted with this condition.</summary>
        public static void Refused(string condition, Action attempt)
        {
            try
            {
                attempt();
            }
            catch (AmqpException refusal)
            {
                Equal("condition", refusal.Error.Condition.ToString(), condition);
                return;
            }
            throw new InvalidOperationException("no " + condition);
        }

        /// <summary>The broker closes a link or a connection with this condition.</summary>
        public static void Closes(string condition, AmqpObject one)
        {
            var closed = new TaskCompletionSource<Error>();
            one.AddClosedCallback((sender, error) => closed.TrySetResult(error));
            Error cause = Soon(condition, closed.Task);
            Equal("condition", cause == null ? null : cause.Condition.ToString(), condition);
        }

        static bool Same(object one, object other)
        {
            if (one == null || other == null || one.GetType() != other.GetType())
            {
                return one == null && other == null;
            }
            if (one is Map)
            {
                Map map = (Map)one;
                return map.Count == ((Map)other).Count
                    && map.Keys.Cast<object>().All(key => Same(map[key], ((Map)other)[key]));
            }
            if (one is IList)
            {
                return ((IList)one).Cast<object>().Zip(((IList)other).Cast<object>(), Same).All(same => same)
                    && ((IList)one).Count == ((IList)other).Count;
            }
            if (one is DescribedValue)
            {
                DescribedValue left = (DescribedValue)one, right = (DescribedValue)other;
                return Same(left.Descriptor, right.Descriptor) && Same(left.Value, right.Value);
            }
            if (one is Amqp.Types.Decimal)
            {
                return Same(((Amqp.Types.Decimal)one).Bytes, ((Amqp.Types.Decimal)other).Bytes);
            }
            return one.Equals(other);
        }

        static string Text(object value)
        {
            return value == null ? "null" : value.GetType().Name + " " + value;
        }
    }
}
