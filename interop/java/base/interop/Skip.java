package interop;

/** This client cannot do that; the text says what is missing, and in which version. */
public final class Skip extends RuntimeException {
    public Skip(String why) {
        super(why);
    }
}
