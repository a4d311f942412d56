package interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;

/** The Java code of a page in docs/clients is a part of the class that is run as scenario `page`. */
public final class Snippets {
    private static final Pattern BLOCK = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

    /** Called in the folder of the client. */
    public static void areIn(Class<?> page, String client) throws IOException {
        var source = Path.of("src/main/java", page.getName().replace('.', '/') + ".java");
        String code = withoutIndent(Files.readString(source));
        var blocks = BLOCK.matcher(Files.readString(Path.of("../../docs/clients", client + ".md")));
        int found = 0;
        for (; blocks.find(); found++) {
            String block = withoutIndent(blocks.group(1));
            Check.that("not in " + source + ": " + block, code.contains(block));
        }
        Check.that("the page has no snippets", found > 0);
    }

    private static String withoutIndent(String code) {
        return code.replaceAll("(?m)^ +", "");
    }

    private Snippets() {}
}
