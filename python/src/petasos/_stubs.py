"""Generates stubs and servicers."""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, Tuple

from google.protobuf.descriptor_pb2 import FileDescriptorProto, MethodDescriptorProto
from google.protobuf.descriptor_pb2 import ServiceDescriptorProto

from ._types import HEADER, alias, imports, type_names

_KINDS = {
    (False, False): ("UnaryUnary", "unary_unary"),
    (False, True): ("UnaryStream", "unary_stream"),
    (True, False): ("StreamUnary", "stream_unary"),
    (True, True): ("StreamStream", "stream_stream"),
}

# Of a file's descriptors: its services, and their methods (`descriptor.proto`).
_SERVICES, _METHODS = 6, 2


def services(file: FileDescriptorProto, files: Iterable[FileDescriptorProto]) -> str:
    """A module with the services of a file."""
    printer = _Printer(file, type_names(files))
    body = "".join(
        line + "\n" for at, service in enumerate(file.service) for line in printer.all(at, service)
    )
    used = sorted({file.name, *printer.used})
    return (
        HEADER.format(file.name)
        + "from __future__ import annotations\n\n"
        + "from typing import AsyncIterator\n\n"
        + "import petasos\n"
        + "import petasos.aio\n"
        + imports(used)
        + body
    )


class _Printer:
    def __init__(self, file: FileDescriptorProto, known: Dict[str, Tuple[str, str]]) -> None:
        self._file = file
        self._known = known
        self.used: "set[str]" = set()
        places = file.source_code_info.location
        self._comments = {tuple(place.path): place.leading_comments for place in places}

    def all(self, at: int, service: ServiceDescriptorProto) -> Iterator[str]:
        """A service's declarations, by its index in the file."""
        package = f"{self._file.package}." if self._file.package else ""
        constant = f"_{service.name.upper()}"
        full = f"{package}{service.name}"
        yield ""
        yield f"{constant} = petasos.Service({alias(self._file.name)}.DESCRIPTOR, {full!r})"
        yield from self._stub(at, service, constant)
        yield from self._servicer(at, service)
        yield from self._adder(service, constant)

    def _stub(self, at: int, service: ServiceDescriptorProto, constant: str) -> Iterator[str]:
        yield f"\n\nclass {service.name}Stub:"
        yield from self._document((_SERVICES, at), "    ", f"Calls {service.name}.")
        yield "\n    def __init__(self, channel: petasos.aio.Channel) -> None:"
        yield f"        client = channel.client({constant})"
        for index, method in enumerate(service.method):
            asked, answered, (kind, maker) = self._method(method)
            yield f"        self.{method.name}: petasos.aio.{kind}[{asked}, {answered}] = ("
            yield f"            client.{maker}({method.name!r}, {answered}.FromString)"
            yield "        )"
            yield from self._document((_SERVICES, at, _METHODS, index), "        ", "")

    def _servicer(self, at: int, service: ServiceDescriptorProto) -> Iterator[str]:
        yield f"\n\nclass {service.name}Servicer:"
        yield from self._document((_SERVICES, at), "    ", f"Serves {service.name}.")
        for index, method in enumerate(service.method):
            asked, answered, _ = self._method(method)
            given = f"requests: AsyncIterator[{asked}]"
            given = given if method.client_streaming else f"request: {asked}"
            gives = f"AsyncIterator[{answered}]" if method.server_streaming else answered
            yield f"\n    async def {method.name}("
            yield f"        self, {given}, context: petasos.aio.ServerContext"
            yield f"    ) -> {gives}:"
            path = (_SERVICES, at, _METHODS, index)
            yield from self._document(path, "        ", f"Answers calls of {method.name}.")
            yield "        raise petasos.RpcError("
            yield "            petasos.StatusCode.UNIMPLEMENTED,"
            yield f"            '{method.name} is not implemented',"
            yield "        )"
            if method.server_streaming:
                yield "        yield  # An async generator."

    def _adder(self, service: ServiceDescriptorProto, constant: str) -> Iterator[str]:
        yield f"\n\ndef add_{service.name}Servicer_to_server("
        yield f"    servicer: {service.name}Servicer, server: petasos.aio.Server"
        yield ") -> None:"
        yield '    """Has a server serve a servicer."""'
        yield "    server.add_service("
        yield f"        {constant},"
        yield "        {"
        for method in service.method:
            asked, _, (_, maker) = self._method(method)
            yield (
                f"            {method.name!r}: "
                f"({maker!r}, {asked}.FromString, servicer.{method.name}),"
            )
        yield "        },"
        yield "    )"

    def _method(self, method: MethodDescriptorProto) -> Tuple[str, str, Tuple[str, str]]:
        kind = _KINDS[(method.client_streaming, method.server_streaming)]
        return self._type(method.input_type), self._type(method.output_type), kind

    def _type(self, full: str) -> str:
        file, name = self._known[full]
        self.used.add(file)
        return f"{alias(file)}.{name}"

    def _document(self, path: Tuple[int, ...], indent: str, otherwise: str) -> Iterator[str]:
        """The comment of a declaration."""
        comment = self._comments.get(path, "").strip() or otherwise
        if not comment:
            return
        lines = [line.strip() for line in comment.splitlines()]
        text = f"\n{indent}".join(lines).replace("\\", "\\\\").replace('"""', "'''")
        end = f"\n{indent}" if len(lines) > 1 or text.endswith('"') else ""
        yield f'{indent}"""{text}{end}"""'
