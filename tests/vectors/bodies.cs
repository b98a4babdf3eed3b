// Writes tests/vectors/bodies.txt: bodies as .NET serializes them, each with a name, its BodyType and its bytes.
//   mcs -r:System.ServiceModel -r:System.Runtime.Serialization bodies.cs && mono bodies.exe > bodies.txt
// What is there was written by Mono 6.8.
using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.Serialization.Formatters.Binary;
using System.ServiceModel;
using System.ServiceModel.Channels;
using System.Text;
using System.Xml;
using System.Xml.Serialization;

namespace Shop {
    [Serializable] public enum Colour { Red = 1, Green = 2 }
    [Serializable] public struct Point { public int X; public int Y; }
    [Serializable] public class Line { public string Article { get; set; } public decimal Price { get; set; } public int? Count { get; set; } }
    [Serializable] public class Order {
        public int Id { get; set; }
        public string Customer { get; set; }
        public DateTime Placed { get; set; }
        public List<Line> Lines { get; set; }
        [XmlAttribute] public bool Urgent { get; set; }
        public string Note { get; set; }
    }
    [Serializable] public class Everything {
        public bool truth = true; public byte octet = 200; public sbyte signed = -5; public char letter = '\u20ac';
        public short small = -2; public ushort usmall = 65535; public int number = -7; public uint unumber = 4000000000;
        public long large = long.MinValue; public ulong ularge = ulong.MaxValue; public float single = 1.5f; public double real = Math.PI;
        public double nan = double.NaN; public decimal money = -12.3400m; public DateTime utc = new DateTime(2026, 3, 1, 12, 30, 15, DateTimeKind.Utc).AddTicks(1234567);
        public DateTime plain = new DateTime(1999, 12, 31); public TimeSpan span = -new TimeSpan(1, 2, 3, 4, 5);
        public Guid guid = new Guid("00112233-4455-6677-8899-aabbccddeeff"); public Colour colour = Colour.Green; public Point point = new Point { X = 3, Y = 4 };
        public byte[] octets = { 1, 2, 3, 255 }; public int[] numbers = { 1, 2, 3 }; public string[] words = { "one", null, null, "two" };
        public object[] mixed = { 1, "x", null, 2.5, new Point { X = 1, Y = 2 } }; public int[,] table = { { 1, 2, 3 }, { 4, 5, 6 } };
        public int[][] jagged = { new[] { 1 }, new[] { 2, 3 } }; public Dictionary<string, int> counts = new Dictionary<string, int> { { "a", 1 } };
        public string nothing = null; public string empty = ""; public string astral = "\U0001F600"; public bool[] truths = { true, false };
        public byte[,] square = { { 1, 2 }, { 3, 4 } }; public object[] nulls = new object[300];
    }
    [Serializable] public class Node { public string name; public Node next; public Node[] all; }
}

class Make {
    static TextWriter output;
    static void Put(string name, int type, byte[] data) { output.WriteLine(name + " " + type + " " + BitConverter.ToString(data).Replace("-", "").ToLower()); }
    static byte[] Nrbf(object value) { var s = new MemoryStream(); new BinaryFormatter().Serialize(s, value); return s.ToArray(); }
    static byte[] Bytes(Stream s) { var m = new MemoryStream(); s.Position = 0; s.CopyTo(m); return m.ToArray(); }
    static Shop.Order Order() { return new Shop.Order { Id = 7, Customer = "M\u00fcller & S\u00f6hne", Placed = new DateTime(2026, 3, 1, 12, 30, 15, DateTimeKind.Utc), Urgent = true, Lines = new List<Shop.Line> { new Shop.Line { Article = "nail", Price = 0.05m, Count = 100 }, new Shop.Line { Article = "hammer", Price = 12.30m } } }; }
    static void Main() {
        output = Console.Out;
        Put("nrbf-string", 768, Nrbf("h\u00e9llo"));
        Put("nrbf-order", 768, Nrbf(Order()));
        Put("nrbf-everything", 768, Nrbf(new Shop.Everything()));
        var a = new Shop.Node { name = "a" }; var b = new Shop.Node { name = "b", next = a }; a.next = b; a.all = new[] { a, b, null };
        Put("nrbf-cycle", 768, Nrbf(a));
        Put("nrbf-int", 768, Nrbf(42));
        var shared = new int[] { 1, 2 };
        Put("nrbf-shared", 768, Nrbf(new object[] { shared, shared, "s", "s" }));
        Put("nrbf-exception", 768, Nrbf(new InvalidOperationException("no such order", new ArgumentException("inner"))));
        foreach (var encoding in new Encoding[] { new UTF8Encoding(false), new UTF8Encoding(true), Encoding.Unicode }) {
            var m = new MemoryStream(); var w = XmlWriter.Create(m, new XmlWriterSettings { Encoding = encoding, Indent = true, CheckCharacters = false });
            var order = Order(); order.Customer = "bell \u0007 end"; new XmlSerializer(typeof(Shop.Order)).Serialize(w, order); w.Flush();
            Put("xml-" + encoding.WebName + "-" + encoding.GetPreamble().Length, 0, m.ToArray());
        }
        ((Action)(() => {
            var m = new MemoryStream(); var w = XmlDictionaryWriter.CreateBinaryWriter(m);
            w.WriteStartElement("all"); 
            w.WriteElementString("text", "h\u00e9llo"); w.WriteStartElement("int"); w.WriteValue(-70000); w.WriteEndElement();
            w.WriteStartElement("long"); w.WriteValue(long.MaxValue); w.WriteEndElement(); w.WriteStartElement("float"); w.WriteValue(32.45f); w.WriteEndElement();
            w.WriteStartElement("double"); w.WriteValue(0.1); w.WriteEndElement(); w.WriteStartElement("decimal"); w.WriteValue(-5.1200m); w.WriteEndElement();
            w.WriteStartElement("date"); w.WriteValue(new DateTime(2026, 3, 1, 12, 30, 15, DateTimeKind.Utc)); w.WriteEndElement();
            w.WriteStartElement("guid"); w.WriteValue(new Guid("00112233-4455-6677-8899-aabbccddeeff")); w.WriteEndElement();
            w.WriteStartElement("span"); w.WriteValue(TimeSpan.FromSeconds(-344)); w.WriteEndElement(); w.WriteStartElement("bool"); w.WriteValue(true); w.WriteEndElement();
            w.WriteStartElement("bytes"); w.WriteBase64(new byte[] { 0, 1, 2, 3 }, 0, 4); w.WriteEndElement();
            w.WriteStartElement("id"); w.WriteValue(new UniqueId(new Guid("00112233-4455-6677-8899-aabbccddeeff"))); w.WriteEndElement();
            w.WriteStartElement("p", "child", "urn:x"); w.WriteAttributeString("a", "1"); w.WriteEndElement();
            w.WriteEndElement(); w.Flush(); Put("nbfx", 0, m.ToArray()); }))();
        foreach (var session in new[] { false, true }) { var s = session; ((Action)(() => {
            var element = new BinaryMessageEncodingBindingElement(); var factory = element.CreateMessageEncoderFactory();
            var encoder = s ? factory.CreateSessionEncoder() : factory.Encoder;
            var message = Message.CreateMessage(MessageVersion.Soap12WSAddressing10, "urn:shop/Place", Order());
            message.Headers.To = new Uri("net.msmq://host/private/orders");
            var m = new MemoryStream(); encoder.WriteMessage(message, m); Put(s ? "soap-session" : "soap", 0, m.ToArray()); }))(); }
        output.Flush();
    }
}
