import com.sun.tools.attach.VirtualMachine;
import javax.management.Attribute;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * The few management calls the tests need, made through the attach interface
 * of the JVM: no JMX port has to be open, so nothing can collide.
 *
 *   java NodeTool.java PID paxos v1|v2
 *   java NodeTool.java PID flush KEYSPACE
 *   java NodeTool.java PID compact KEYSPACE
 */
public class NodeTool
{
    public static void main(String[] args) throws Exception
    {
        VirtualMachine vm = VirtualMachine.attach(args[0]);
        String address = vm.startLocalManagementAgent();
        vm.detach();
        try (var connector = JMXConnectorFactory.connect(new JMXServiceURL(address)))
        {
            run(connector.getMBeanServerConnection(), args);
        }
    }

    /** A node that has just started may answer before all of it can be managed. */
    private static void awaitRegistration(MBeanServerConnection node, ObjectName name) throws Exception
    {
        long until = System.nanoTime() + 60_000_000_000L;

        while (!node.isRegistered(name) && System.nanoTime() < until)
            Thread.sleep(100);
    }

    private static void run(MBeanServerConnection node, String[] args) throws Exception
    {
        ObjectName proxy = new ObjectName("org.apache.cassandra.db:type=StorageProxy");
        ObjectName service = new ObjectName("org.apache.cassandra.db:type=StorageService");
        awaitRegistration(node, proxy);
        awaitRegistration(node, service);
        switch (args[1])
        {
            case "paxos":
                node.setAttribute(proxy, new Attribute("PaxosVariant", args[2]));
                if (!node.getAttribute(proxy, "PaxosVariant").equals(args[2]))
                    throw new IllegalStateException("paxos variant was not taken");
                break;
            case "flush":
                node.invoke(service, "forceKeyspaceFlush",
                            new Object[] { args[2], new String[0] },
                            new String[] { String.class.getName(), String[].class.getName() });
                break;
            case "compact":
                node.invoke(service, "forceKeyspaceCompaction",
                            new Object[] { false, args[2], new String[0] },
                            new String[] { boolean.class.getName(), String.class.getName(), String[].class.getName() });
                break;
            default:
                throw new IllegalArgumentException(args[1]);
        }
    }
}
