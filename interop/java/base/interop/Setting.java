package interop;

import com.google.gson.Gson;
import com.google.gson.annotations.SerializedName;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** What interop/matrix writes for its clients; SCENARIOS.md says what each field is. */
public record Setting(String host, int amqp, int amqps, int bare, String user, String password,
        String vhost, String ca, String certificate, String key,
        @SerializedName("client_user") String clientUser, String prefix, boolean rabbitmq) {

    private static final char[] NO_PASSWORD = {};

    static Setting read(String path) throws IOException {
        return new Gson().fromJson(Files.readString(Path.of(path)), Setting.class);
    }

    /** Trusts who signed the broker's certificate, and no other. */
    public SSLContext tls() throws GeneralSecurityException, IOException {
        return context(null);
    }

    /** Trusts as {@link #tls} and shows the client certificate. */
    public SSLContext tlsWithCertificate() throws GeneralSecurityException, IOException {
        var pem = Files.readString(Path.of(key)).replaceAll("-----[A-Z ]+-----|\\s", "");
        var spec = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem));
        var store = emptyStore();
        store.setKeyEntry("client", KeyFactory.getInstance("EC").generatePrivate(spec), NO_PASSWORD,
                new Certificate[] {certificateIn(certificate)});
        var keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, NO_PASSWORD);
        return context(keys);
    }

    private SSLContext context(KeyManagerFactory keys) throws GeneralSecurityException, IOException {
        var store = emptyStore();
        store.setCertificateEntry("ca", certificateIn(ca));
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        var context = SSLContext.getInstance("TLS");
        context.init(keys == null ? null : keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    private static KeyStore emptyStore() throws GeneralSecurityException, IOException {
        var store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        return store;
    }

    private static Certificate certificateIn(String path) throws GeneralSecurityException, IOException {
        try (InputStream in = new FileInputStream(path)) {
            return CertificateFactory.getInstance("X.509").generateCertificate(in);
        }
    }
}
