import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/**
 * A wall clock for one Cassandra node that tests can set apart from the
 * machine's: it adds the milliseconds written in the file named by the system
 * property test.clock.file. Cassandra loads it through -Dcassandra.clock.
 *
 * The file is read again every 50 ms, so that a running node can be made fast
 * or slow. nanoTime is left alone: Cassandra's timeouts must stay real.
 */
public class FileClock implements org.apache.cassandra.utils.Clock
{
    private static final Path FILE = Path.of(System.getProperty("test.clock.file"));
    private static final long EVERY = TimeUnit.MILLISECONDS.toNanos(50);

    private volatile long offset;
    private volatile long readAt = System.nanoTime() - EVERY;

    @Override
    public long nanoTime()
    {
        return System.nanoTime();
    }

    @Override
    public long currentTimeMillis()
    {
        long now = System.nanoTime();
        if (now - readAt >= EVERY)
        {
            readAt = now;
            offset = read(offset);
        }
        return System.currentTimeMillis() + offset;
    }

    /** A file that is being replaced, or is gone, leaves the clock as it was. */
    private static long read(long otherwise)
    {
        try
        {
            return Long.parseLong(Files.readString(FILE).trim());
        }
        catch (Exception e)
        {
            return otherwise;
        }
    }
}
