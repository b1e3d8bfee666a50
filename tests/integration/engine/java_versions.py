"""A jar with one Java class, in two versions: an SQL function that returns the version.

public class Version implements org.apache.spark.sql.api.java.UDF1<String, String> {
    public String call(String anything) { return "version 1"; }
}

The bytecode is in this file (javac -g:none --release 17): not every Java has a compiler.
"""

import base64
import zipfile
from pathlib import Path

_FIRST = """
yv66vgAAAD0AGgoAAgADBwAEDAAFAAYBABBqYXZhL2xhbmcvT2JqZWN0AQAGPGluaXQ+AQADKClWCAAIAQAJdmVy
c2lvbiAxBwAKAQAQamF2YS9sYW5nL1N0cmluZwoADAANBwAODAAPABABAAdWZXJzaW9uAQAEY2FsbAEAJihMamF2
YS9sYW5nL1N0cmluZzspTGphdmEvbGFuZy9TdHJpbmc7BwASAQAib3JnL2FwYWNoZS9zcGFyay9zcWwvYXBpL2ph
dmEvVURGMQEABENvZGUBACYoTGphdmEvbGFuZy9PYmplY3Q7KUxqYXZhL2xhbmcvT2JqZWN0OwEACkV4Y2VwdGlv
bnMHABcBABNqYXZhL2xhbmcvRXhjZXB0aW9uAQAJU2lnbmF0dXJlAQBcTGphdmEvbGFuZy9PYmplY3Q7TG9yZy9h
cGFjaGUvc3Bhcmsvc3FsL2FwaS9qYXZhL1VERjE8TGphdmEvbGFuZy9TdHJpbmc7TGphdmEvbGFuZy9TdHJpbmc7
PjsAIQAMAAIAAQARAAAAAwABAAUABgABABMAAAARAAEAAQAAAAUqtwABsQAAAAAAAQAPABAAAQATAAAADwABAAIA
AAADEgewAAAAABBBAA8AFAACABMAAAAVAAIAAgAAAAkqK8AACbYAC7AAAAAAABUAAAAEAAEAFgABABgAAAACABk=
"""


def jar_of(version: int, folder: Path) -> Path:
    returned = f"version {version}".encode()
    compiled = base64.b64decode(_FIRST).replace(b"version 1", returned)
    path = folder / f"version-{version}.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("Version.class", compiled)
    return path
